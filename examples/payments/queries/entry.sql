SELECT id, kind, principal, amount::text AS amount, currency, epoch, bank_key FROM payments_ledger
WHERE id = $1 AND principal = $2
