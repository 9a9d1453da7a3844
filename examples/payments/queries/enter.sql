INSERT INTO payments_ledger (id, kind, principal, amount, currency, epoch, bank_key)
VALUES ($1, $2, $3, $4::numeric(14, 2), $5, $6, $7)
