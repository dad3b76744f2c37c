-- Conditions 1 to 12, A4 to A6 and A8 for warehouses $1 to $2, each table read once but for history (twice).
-- $3: districts of a warehouse. $4: what condition 11 demands, NULL when transactions have run.
-- $5 and $6: first order that was open after loading, and first that a run entered.
WITH loaded AS (
    SELECT started_at AS at FROM tenbin_load
), lines AS (
    SELECT ol_w_id AS w, ol_d_id AS d, ol_o_id AS o,
           count(*) AS lines, count(ol_delivery_d) AS delivered,
           sum(ol_amount) FILTER (WHERE ol_delivery_d IS NOT NULL) AS amount,
           min(ol_delivery_d) AS first_date, max(ol_delivery_d) AS last_date,
           count(*) FILTER (WHERE ol_supply_w_id <> ol_w_id) AS remote
    FROM order_line
    WHERE ol_w_id BETWEEN $1 AND $2
    GROUP BY 1, 2, 3
), open AS (
    SELECT no_w_id AS w, no_d_id AS d, no_o_id AS o
    FROM new_order
    WHERE no_w_id BETWEEN $1 AND $2
), entered AS (
    SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_c_id AS c, o_carrier_id AS carrier, o_ol_cnt AS cnt,
           o_entry_d AS entry, o_all_local AS all_local
    FROM orders
    WHERE o_w_id BETWEEN $1 AND $2
), ord AS (
    SELECT w, d, o, e.c, e.carrier, e.cnt, e.entry, e.all_local, coalesce(l.lines, 0) AS lines, l.delivered,
           l.amount, l.first_date, l.last_date, coalesce(l.remote, 0) AS remote,
           e.c IS NOT NULL AS is_order, open.o IS NOT NULL AS is_open
    FROM entered e
    FULL JOIN lines l USING (w, d, o)
    FULL JOIN open USING (w, d, o)
), per_district AS (
    SELECT w, d, max(o) FILTER (WHERE is_order) AS max_o, count(*) FILTER (WHERE is_order) AS orders,
           sum(cnt) AS cnt, sum(lines) AS lines, count(*) FILTER (WHERE is_open) AS open,
           max(o) FILTER (WHERE is_open) AS max_open, min(o) FILTER (WHERE is_open) AS min_open
    FROM ord
    GROUP BY 1, 2
), paid_district AS (
    SELECT h_w_id AS w, h_d_id AS d, sum(h_amount) AS paid
    FROM history
    WHERE h_w_id BETWEEN $1 AND $2
    GROUP BY 1, 2
), dist AS (
    SELECT w, d, d_next_o_id, d_ytd, coalesce(paid, 0) AS paid, max_o,
           coalesce(orders, 0) AS orders, coalesce(cnt, 0) AS cnt, coalesce(lines, 0) AS lines,
           coalesce(open, 0) AS open, max_open, min_open
    FROM generate_series($1, $2) AS w
    CROSS JOIN generate_series(1, $3) AS d
    LEFT JOIN (SELECT d_w_id AS w, d_id AS d, d_next_o_id, d_ytd FROM district) AS district USING (w, d)
    LEFT JOIN per_district USING (w, d)
    LEFT JOIN paid_district USING (w, d)
), ware AS (
    SELECT w, w_ytd, sum(d_ytd) AS d_ytd,
           (SELECT coalesce(sum(p.paid), 0) FROM paid_district p WHERE p.w = dist.w) AS paid
    FROM dist
    LEFT JOIN warehouse ON w_id = w
    GROUP BY w, w_ytd
), cust AS (
    SELECT w, d, c, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_since,
           coalesce(amount, 0) AS amount, coalesce(deliveries, 0) AS deliveries,
           coalesce(paid, 0) AS paid, coalesce(payments, 0) AS payments,
           coalesce(loaded_payments, 0) AS loaded_payments, first_payment, last_payment
    FROM (
        SELECT c_w_id AS w, c_d_id AS d, c_id AS c, c_balance, c_ytd_payment, c_payment_cnt,
               c_delivery_cnt, c_since
        FROM customer
        WHERE c_w_id BETWEEN $1 AND $2
    ) AS customer
    FULL JOIN (
        SELECT w, d, c, sum(amount) AS amount,
               count(*) FILTER (WHERE carrier IS NOT NULL AND o >= $5) AS deliveries
        FROM ord
        WHERE is_order
        GROUP BY 1, 2, 3
    ) AS bought USING (w, d, c)
    FULL JOIN (
        SELECT h_c_w_id AS w, h_c_d_id AS d, h_c_id AS c, sum(h_amount) AS paid, count(*) AS payments,
               count(*) FILTER (WHERE h_date = (SELECT at FROM loaded)) AS loaded_payments,
               min(h_date) AS first_payment, max(h_date) AS last_payment
        FROM history
        WHERE h_c_w_id BETWEEN $1 AND $2
        GROUP BY 1, 2, 3
    ) AS paid USING (w, d, c)
), offending (condition, w, d, n, says) AS (
    SELECT 1, w, 0, 0, format('warehouse %s: w_ytd %s, sum of d_ytd %s', w, w_ytd, d_ytd)
    FROM ware WHERE w_ytd IS DISTINCT FROM d_ytd
    UNION ALL
    SELECT 2, w, d, 0, format('district (%s, %s): d_next_o_id %s, max(o_id) %s, max(no_o_id) %s',
                              w, d, d_next_o_id, max_o, max_open)
    FROM dist WHERE d_next_o_id - 1 IS DISTINCT FROM max_o OR (open > 0 AND max_open IS DISTINCT FROM max_o)
    UNION ALL
    SELECT 3, w, d, 0, format('district (%s, %s): no_o_id from %s to %s, but %s rows',
                              w, d, min_open, max_open, open)
    FROM dist WHERE open > 0 AND max_open - min_open + 1 <> open
    UNION ALL
    SELECT 4, w, d, 0, format('district (%s, %s): sum of o_ol_cnt %s, order lines %s', w, d, cnt, lines)
    FROM dist WHERE cnt <> lines
    UNION ALL
    SELECT 5, w, d, o, CASE WHEN is_order
           THEN format('order (%s, %s, %s): o_carrier_id %s, %s new_order row',
                       w, d, o, coalesce(carrier::text, 'null'), CASE WHEN is_open THEN 'a' ELSE 'no' END)
           ELSE format('new_order (%s, %s, %s): no such order', w, d, o) END
    FROM ord WHERE is_open AND NOT is_order OR is_order AND (carrier IS NULL) <> is_open
    UNION ALL
    SELECT 6, w, d, o, format('order (%s, %s, %s): o_ol_cnt %s, order lines %s', w, d, o, cnt, lines)
    FROM ord WHERE is_order AND cnt <> lines
    UNION ALL
    SELECT 7, w, d, o, format('order (%s, %s, %s): o_carrier_id %s, but %s of %s order lines delivered',
                              w, d, o, coalesce(carrier::text, 'null'), delivered, lines)
    FROM ord WHERE is_order AND delivered <> CASE WHEN carrier IS NULL THEN 0 ELSE lines END
    UNION ALL
    SELECT 8, w, 0, 0, format('warehouse %s: w_ytd %s, sum of h_amount %s', w, w_ytd, paid)
    FROM ware WHERE w_ytd IS DISTINCT FROM paid
    UNION ALL
    SELECT 9, w, d, 0, format('district (%s, %s): d_ytd %s, sum of h_amount %s', w, d, d_ytd, paid)
    FROM dist WHERE d_ytd IS DISTINCT FROM paid
    UNION ALL
    SELECT 10, w, d, c, format('customer (%s, %s, %s): c_balance %s, delivered %s less paid %s',
                               w, d, c, c_balance, amount, paid)
    FROM cust WHERE c_balance IS DISTINCT FROM amount - paid
    UNION ALL
    SELECT 11, w, d, 0, format('district (%s, %s): %s orders, %s new_order rows', w, d, orders, open)
    FROM dist WHERE orders - open <> $4
    UNION ALL
    SELECT 12, w, d, c, format('customer (%s, %s, %s): c_balance %s, c_ytd_payment %s, delivered %s',
                               w, d, c, c_balance, c_ytd_payment, amount)
    FROM cust WHERE c_balance + c_ytd_payment IS DISTINCT FROM amount
    UNION ALL
    SELECT 16, w, d, c, format('customer (%s, %s, %s): c_payment_cnt %s, rows of history %s',
                               w, d, c, c_payment_cnt, payments)
    FROM cust WHERE c_payment_cnt IS DISTINCT FROM payments
    UNION ALL
    SELECT 17, w, d, c, format('customer (%s, %s, %s): c_delivery_cnt %s, orders delivered since loading %s',
                               w, d, c, c_delivery_cnt, deliveries)
    FROM cust WHERE c_delivery_cnt IS DISTINCT FROM deliveries
    UNION ALL
    SELECT 18, w, d, c, format('customer (%s, %s, %s): c_since %s, %s rows of history of the load at %s; h_date from %s to %s',
                               w, d, c, c_since, loaded_payments, at, first_payment, last_payment)
    FROM cust, loaded
    WHERE c_since IS DISTINCT FROM at OR loaded_payments <> 1 OR first_payment IS DISTINCT FROM at
       OR last_payment > statement_timestamp()
    UNION ALL
    SELECT 18, w, d, o, format('order (%s, %s, %s): o_entry_d %s, but the load was at %s, the check is at %s',
                               w, d, o, entry, at, statement_timestamp())
    FROM ord, loaded
    WHERE is_order AND (entry < at OR entry > CASE WHEN o < $6 THEN at ELSE statement_timestamp() END)
    UNION ALL
    SELECT 18, w, d, o, format('order (%s, %s, %s): ol_delivery_d from %s to %s, but the load was at %s, the check is at %s',
                               w, d, o, first_date, last_date, at, statement_timestamp())
    FROM ord, loaded
    WHERE is_order AND (first_date <> last_date OR first_date < at
                        OR last_date > CASE WHEN o < $5 THEN at ELSE statement_timestamp() END)
    UNION ALL
    SELECT 20, w, d, o, format('order (%s, %s, %s): o_all_local %s, but %s of %s order lines from another warehouse',
                               w, d, o, all_local, remote, lines)
    FROM ord WHERE is_order AND all_local <> (remote = 0)::integer
)
SELECT condition, count(*), array_agg(says ORDER BY place) FILTER (WHERE place <= 10)
FROM (
    SELECT condition, says, row_number() OVER (PARTITION BY condition ORDER BY w, d, n) AS place
    FROM offending
) AS placed
GROUP BY condition
