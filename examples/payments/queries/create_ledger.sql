CREATE TABLE IF NOT EXISTS payments_ledger (
    number    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id        text NOT NULL UNIQUE,
    kind      text NOT NULL CHECK (kind IN ('payment', 'refund', 'like')),
    principal text NOT NULL,
    amount    numeric(14, 2),
    currency  text,
    epoch     bigint,
    bank_key  text
)
