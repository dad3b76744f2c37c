-- A1 for warehouses $1 to $2: amounts of the order lines that runs entered, from order $3 on.
WITH offending AS (
    SELECT format('order_line (%s, %s, %s, %s): ol_amount %s, but %s of item %s at %s',
                  ol_w_id, ol_d_id, ol_o_id, ol_number, ol_amount, ol_quantity, ol_i_id,
                  coalesce(i_price::text, 'no price')) AS says,
           row_number() OVER (ORDER BY ol_w_id, ol_d_id, ol_o_id, ol_number) AS place
    FROM district
    JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id AND ol_o_id >= $3
    LEFT JOIN item ON i_id = ol_i_id
    WHERE d_w_id BETWEEN $1 AND $2 AND ol_amount IS DISTINCT FROM ol_quantity * i_price
)
SELECT 13, count(*), array_agg(says ORDER BY place) FILTER (WHERE place <= 10)
FROM offending HAVING count(*) > 0
