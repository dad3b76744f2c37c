-- A2 for all warehouses: what stock counts against the order lines that runs entered, from order
-- $1 on, by the warehouse that supplied them.
WITH supplied AS (
    SELECT ol_supply_w_id AS s_w_id, ol_i_id AS s_i_id, sum(ol_quantity) AS ytd, count(*) AS orders,
           count(*) FILTER (WHERE ol_supply_w_id <> ol_w_id) AS remote
    FROM district
    JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id AND ol_o_id >= $1
    GROUP BY 1, 2
), offending AS (
    SELECT format('stock (%s, %s): s_ytd %s, s_order_cnt %s, s_remote_cnt %s, '
                  'but order lines give %s, %s, %s',
                  s_w_id, s_i_id, s_ytd, s_order_cnt, s_remote_cnt,
                  coalesce(ytd, 0), coalesce(orders, 0), coalesce(remote, 0)) AS says,
           row_number() OVER (ORDER BY s_w_id, s_i_id) AS place
    FROM stock
    FULL JOIN supplied USING (s_w_id, s_i_id)
    WHERE s_ytd IS DISTINCT FROM coalesce(ytd, 0)
       OR s_order_cnt IS DISTINCT FROM coalesce(orders, 0)
       OR s_remote_cnt IS DISTINCT FROM coalesce(remote, 0)
)
SELECT 14, count(*), array_agg(says ORDER BY place) FILTER (WHERE place <= 10)
FROM offending HAVING count(*) > 0
