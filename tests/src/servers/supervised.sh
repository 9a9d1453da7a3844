# Runs one program in a folder of its own for as long as somebody holds the other end of this input, then ends the
# program and removes the folder.
#
# $1: the folder, which it makes and tells of by a line. $2: the signal that ends the program.
# Every line of input starts the program, and is shell text that ends in its `exec`. The folder then has `pid`, `log`
# and, once it has ended, `ended`.

# What stops the tests from a terminal must not stop who cleans up after them, nor must an end of theirs before they
# have read a line.
trap '' INT HUP TERM PIPE
mkdir -m 700 "$1" && cd "$1" || exit 1
echo made 2>/dev/null

ran=
while read -r line; do
    ran=yes
    {
        sh -c "echo \$\$ >pid.new && mv pid.new pid; $line"
        echo $? >ended.new && mv ended.new ended
    } </dev/null >>log 2>&1 &
done

# Again and again: where the program has not come to its `exec` yet, the signal is lost. After half a minute, by force.
signal=$2
rounds=0
while [ "$ran" ] && [ ! -e ended ]; do
    if [ -e pid ]; then
        kill -s CONT "$(cat pid)"
        kill -s "$signal" "$(cat pid)"
    fi 2>/dev/null
    sleep 0.1
    rounds=$((rounds + 1))
    [ "$rounds" -lt 300 ] || signal=KILL
done
cd / && rm -rf "$1"
