-- Four claimed groups become four groups that take every fourth key of all of them.
SELECT array_agg(name) FILTER (WHERE n % 4 = 0) AS names_1, array_agg(token) FILTER (WHERE n % 4 = 0) AS tokens_1,
       array_agg(name) FILTER (WHERE n % 4 = 1) AS names_2, array_agg(token) FILTER (WHERE n % 4 = 1) AS tokens_2,
       array_agg(name) FILTER (WHERE n % 4 = 2) AS names_3, array_agg(token) FILTER (WHERE n % 4 = 2) AS tokens_3,
       array_agg(name) FILTER (WHERE n % 4 = 3) AS names_4, array_agg(token) FILTER (WHERE n % 4 = 3) AS tokens_4
FROM unnest(:names_1::bytea[] || :names_2::bytea[] || :names_3::bytea[] || :names_4::bytea[],
            :tokens_1::uuid[] || :tokens_2::uuid[] || :tokens_3::uuid[] || :tokens_4::uuid[])
     WITH ORDINALITY AS claimed (name, token, n) \gset
