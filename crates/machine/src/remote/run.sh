# Runs a worker alone on the board. Lines: seconds to wait for the turn (or "ask": no turn), the time limit, the threads, the words of
# the command up to an empty line, the request. The end of the input, which comes with the end of the connection, ends the worker.
IFS= read -r patience && IFS= read -r limit && IFS= read -r threads || exit 1
set --
while IFS= read -r word && [ -n "$word" ]; do set -- "$@" "$word"; done
IFS= read -r request || exit 1
printf "\nperf4sight worker\n"
if [ "$patience" != ask ]; then
    # The lock of machine/turn.rs.
    exec 9</tmp
    flock -w "$patience" 9 || { printf "\nperf4sight busy\n"; exit 0; }
fi
kills() { while read -r name count; do [ "$name" != oom_kill ] || printf "%s" "$count"; done </proc/vmstat; }
centiseconds() { read -r up _ </proc/uptime && printf "%s" "${up%.*}${up#*.}"; }
# What the worker starts dies with it, also what left its group: it inherits this mark.
mark=PERF4SIGHT_WORKER=$$.$(centiseconds)
strays() {
    for file in $(grep -lsxzF "$mark" /proc/[0-9]*/environ); do
        process=${file#/proc/}
        kill -KILL "${process%/environ}"
    done
}
killed=$(kills)
began=$(centiseconds)
OMP_NUM_THREADS=$threads MKL_NUM_THREADS=$threads
export OMP_NUM_THREADS MKL_NUM_THREADS
exec 3<&0
printf "%s\n" "$request" | {
    # The kernel takes the worker before anything else on the board.
    { echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null
    exec env "$mark" timeout -s KILL "$limit" "$@" 3<&- 9<&-
} &
worker=$!
{ cat <&3; strays; kill -KILL "-$worker" "$worker"; } >/dev/null 2>&1 9<&- &
guard=$!
wait "$worker"
status=$?
{ strays; kill "$guard"; } 2>/dev/null
[ "$(kills)" = "$killed" ] && memory=0 || memory=1
printf "\nperf4sight ended %s %s %s\n" "$status" "$(($(centiseconds) - began))" "$memory"
