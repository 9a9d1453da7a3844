-- Four claimed groups become four groups that take every fourth key of all of them.
SELECT array_agg(principal) FILTER (WHERE n % 4 = 0) AS principals_1, array_agg(key) FILTER (WHERE n % 4 = 0) AS keys_1,
       array_agg(token) FILTER (WHERE n % 4 = 0) AS tokens_1,
       array_agg(principal) FILTER (WHERE n % 4 = 1) AS principals_2, array_agg(key) FILTER (WHERE n % 4 = 1) AS keys_2,
       array_agg(token) FILTER (WHERE n % 4 = 1) AS tokens_2,
       array_agg(principal) FILTER (WHERE n % 4 = 2) AS principals_3, array_agg(key) FILTER (WHERE n % 4 = 2) AS keys_3,
       array_agg(token) FILTER (WHERE n % 4 = 2) AS tokens_3,
       array_agg(principal) FILTER (WHERE n % 4 = 3) AS principals_4, array_agg(key) FILTER (WHERE n % 4 = 3) AS keys_4,
       array_agg(token) FILTER (WHERE n % 4 = 3) AS tokens_4
FROM unnest(:principals_1::text[] || :principals_2::text[] || :principals_3::text[] || :principals_4::text[],
            :keys_1::text[] || :keys_2::text[] || :keys_3::text[] || :keys_4::text[],
            :tokens_1::uuid[] || :tokens_2::uuid[] || :tokens_3::uuid[] || :tokens_4::uuid[])
     WITH ORDINALITY AS claimed (principal, key, token, n) \gset
