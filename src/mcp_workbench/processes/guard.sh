# Ends what a workbench leaves behind that is killed. `guard.py` starts it, with the id of the run; POSIX sh and tools.
#
# stdin tells of sessions: "+ PID STARTED" when one begins, "- PID STARTED" when nothing of it is left; "." is a
# good end. Only the workbench holds the other end, so the end of stdin is its end, however it came.
#
# All in functions, so that the whole file is read before it is waited in: an upgrade may replace it meanwhile.

main() {
    trap '' INT TERM HUP
    run=$1
    told=' ' # "PID:STARTED", each between blanks
    while read -r sign pid started; do
        case $sign in
            +) told="$told$pid:$started " ;;
            -) forget "$pid:$started" ;;
            .) exit ;;
        esac
    done
    known=
    tenths=0 # since the end of stdin: the same news to every server, to be given a moment to act on
    while
        found=$(look)
        [ -n "$found" ] && [ "$tenths" -lt 45 ]
    do
        known="$known $found"
        if [ "$tenths" -ge 20 ]; then
            each KILL
        elif [ "$tenths" -ge 10 ] && [ -z "$asked" ]; then
            asked=yes
            each TERM
            each CONT # a stopped process hears what it is asked only when it goes on
        fi
        pause
    done
}

forget() {
    case $told in
        *" $1 "*) told="${told%%" $1 "*} ${told#*" $1 "}" ;;
    esac
}

pause() {
    if sleep 0.2; then
        tenths=$((tenths + 2))
    else # a sleep that only knows whole seconds
        sleep 1
        tenths=$((tenths + 10))
    fi
}

# The numbers were looked up a few milliseconds ago, by marker or time of start: they still mean the same.
each() {
    for process in $found; do
        kill -s "$1" -- "${process%:*}" 2>/dev/null
    done
}

look() {
    if [ -r /proc/self/stat ] && command -v awk >/dev/null; then
        table | members
    else
        groups
    fi
}

groups() {
    for process in $told; do
        kill -s 0 -- "-${process%:*}" 2>/dev/null && echo "-$process"
    done
}

table() {
    grep -ls "$run\\." /proc/[0-9]*/environ | sed 's/^/marked /'
    grep -ls 'MCP_WORKBENCH_SPAWN=guard' /proc/[0-9]*/environ | sed 's/^/spared /'
    cat /proc/[0-9]*/stat 2>/dev/null # some end meanwhile
}

# The same rule as `members_of` in table.py: by session, by marker, as known, or by descent from one of these.
members() {
    awk -v told="$told" -v known="$known" '
        $1 == "marked" { split($2, path, "/"); marked[path[3]]; next }
        $1 == "spared" { split($2, path, "/"); spared[path[3]]; next }
        {
            pid = $1
            sub(/^.*\) /, "") # the name in brackets may hold anything
            dead[pid] = $1 ~ /[ZX]/ && $18 <= 1 # a leader that has ended may leave threads
            parent[pid] = $2
            session[pid] = $4
            started[pid] = $20
        }
        END {
            count = split(told, list, " ")
            for (i = 1; i <= count; i++) {
                split(list[i], part, ":")
                # Another process with the number of the leader: the session is a stranger by now.
                if (!(part[1] in started) || started[part[1]] == part[2]) ours[part[1]]
            }
            count = split(known, list, " ")
            for (i = 1; i <= count; i++) seen[list[i]]
            for (pid in started)
                if (pid in marked || session[pid] in ours || (pid ":" started[pid]) in seen) member[pid]
            do {
                grown = 0
                for (pid in started)
                    if (!(pid in member) && !(pid in spared) && parent[pid] in member) {
                        member[pid]
                        grown = 1
                    }
            } while (grown)
            for (pid in member)
                if (pid in started && !dead[pid] && !(pid in spared)) print pid ":" started[pid]
        }'
}

main "$@"
exit
