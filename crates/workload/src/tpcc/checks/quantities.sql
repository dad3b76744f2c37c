-- A3 for warehouse $1: $2 holds what S_QUANTITY was after loading, by item. An order line takes its
-- quantity off the stock, and adds $4 where less than $3 would be left (clause 2.4.2.2). So the
-- stock stays within $4 values from $3 on, and follows, whatever the order of order lines, from
-- the sum of their quantities: S_YTD.
WITH offending AS (
    SELECT format('stock (%s, %s): s_quantity %s, but %s at first less s_ytd %s gives %s',
                  s_w_id, s_i_id, s_quantity, loaded, s_ytd, due) AS says,
           row_number() OVER (ORDER BY s_i_id) AS place
    FROM (
        SELECT s_w_id, s_i_id, s_quantity, s_ytd, ($2::smallint[])[s_i_id] AS loaded,
               $3::integer + (((($2::smallint[])[s_i_id] - $3 - s_ytd) % $4) + $4) % $4 AS due
        FROM stock
        WHERE s_w_id = $1
    ) AS stock
    WHERE s_quantity IS DISTINCT FROM due
)
SELECT 15, count(*), array_agg(says ORDER BY place) FILTER (WHERE place <= 10)
FROM offending HAVING count(*) > 0
