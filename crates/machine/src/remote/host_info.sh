# What a machine is: every line "name size" is followed by that many bytes and a newline. No quotes like those around this script.
LC_ALL=C; export LC_ALL
store=$HOME/.cache/perf4sight
tell() { printf "%s %s\n%s\n" "$1" "${#2}" "$2"; }
file() { [ -f "$1" ] && [ -r "$1" ] && tell "$1" "$(tr -d "\000" <"$1" 2>/dev/null)"; }
group_files() {
    while IFS=: read -r _ controllers path; do
        case ",$controllers," in
        ,,) base=/sys/fs/cgroup ;;
        *,memory,*) base=/sys/fs/cgroup/memory ;;
        *) continue ;;
        esac
        group=$base$path
        while :; do
            for name in memory.max memory.current memory.stat memory.limit_in_bytes memory.usage_in_bytes; do file "$group/$name"; done
            [ "$group" != "$base" ] || break
            group=${group%/*}
        done
    done </proc/self/cgroup
}
printf "\nperf4sight board\n"
tell architecture "$(uname -m)"
tell store "$store"
tell threads "$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)"
tell absent "$(for tool in flock timeout wc tr; do command -v $tool >/dev/null || printf "%s " $tool; done)"
for name in /proc/sys/kernel/random/boot_id /proc/sys/kernel/osrelease /proc/cpuinfo /proc/meminfo /proc/self/cgroup \
    /proc/device-tree/model /etc/nv_tegra_release /etc/nvpmodel.conf /var/lib/nvpmodel/status \
    /sys/class/devfreq/*/cur_freq /sys/class/thermal/*/type /sys/class/thermal/*/temp; do
    file "$name"
done
group_files
printf "end 0\n\n"
