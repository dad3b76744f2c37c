-- A7: item against the rows that loading wrote, from item 1 on. $1: i_im_id; $2: i_price in cents;
-- $3: i_name; $4: i_data.
WITH offending AS (
    SELECT coalesce(i_id, id) AS i,
           format('item %s: (i_im_id, i_price, i_name, i_data) (%s, %s, %s, %s), but (%s, %s, %s, %s) was loaded',
                  coalesce(i_id, id), i_im_id, i_price, i_name, i_data, image, price, name, data) AS says
    FROM item
    FULL JOIN (
        SELECT id, image, cents / 100::numeric AS price, name, data
        FROM unnest($1::integer[], $2::integer[], $3::text[], $4::text[])
             WITH ORDINALITY AS loaded (image, cents, name, data, id)
    ) AS loaded ON i_id = id
    WHERE (i_im_id, i_price, i_name, i_data) IS DISTINCT FROM (image, price, name, data)
)
SELECT 19, count(*), (array_agg(says ORDER BY i))[1:10]
FROM offending HAVING count(*) > 0
