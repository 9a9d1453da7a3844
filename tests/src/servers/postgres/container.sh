# Runs Postgres in a container of the official image, or of one that is like it, for as long as somebody keeps a
# connection to it whose `application_name` is $0. A process that is killed closes its connections, and removes no
# container.
#
# The arguments go to Postgres.
docker-entrypoint.sh postgres "$@" &
server=$!

# Nothing, where the server does not answer.
keepers() {
    psql -U postgres -At -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = '$0'" 2>/dev/null
}

# The keeper comes as soon as the server listens, or never.
for _ in $(seq 300); do
    case $(keepers) in
    '' | 0) sleep 0.2 ;;
    *) break ;;
    esac
done
# A server that is too busy to answer is kept.
while kill -0 "$server" 2>/dev/null && [ "$(keepers)" != 0 ]; do
    sleep 1
done
kill -QUIT "$server" 2>/dev/null
wait "$server"
