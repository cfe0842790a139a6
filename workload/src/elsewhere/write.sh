# Writes records to a file in the directory $1, or to the second half of the device $1, and prints each step as a line of JSON. It ends when
# a line comes. $2 marks its records. $3 is the size of the file, $4 the free space that a directory needs, $5 the number of overwritten
# records, and $6 the greatest number of appended ones.
path=$1 mark=$2 file_bytes=$3 free_bytes=$4 slots=$5 appends_max=$6
record_bytes=4096
newline='
'
export LC_ALL=C

unable() {
    printf '{"Unable":{"why":"%s"}}\n' "$1"
    exit
}

# Sets at_us to the monotonic clock of the machine. /proc/uptime has hundredths of a second.
look_at_clock() {
    read -r uptime rest < /proc/uptime
    at_us=${uptime%.*}${uptime#*.}0000
}

scratch=$(mktemp) || unable 'mktemp failed'
trap 'rm -f "$scratch"' EXIT
if [ -d "$path" ]; then
    free=$(($(stat -f -c '%a * %S' "$path"))) || unable 'the volume cannot be measured'
    [ "$free" -ge "$free_bytes" ] || unable 'the volume is too small for a workload'
    path=$path/csi-sanity-in-use bytes=$file_bytes kept_bytes=0
    dd if=/dev/zero of="$path" bs=1 seek="$bytes" count=0 2> "$scratch" || unable 'the file cannot be made'
    sync
else
    bytes=$(blockdev --getsize64 "$path") || unable 'the device cannot be measured'
    kept_bytes=$(((bytes / 2 + record_bytes - 1) / record_bytes * record_bytes))
    [ $((bytes - kept_bytes)) -ge "$file_bytes" ] || unable 'the volume is too small for a workload'
fi
stride=$(((bytes - kept_bytes) / slots / record_bytes))
appends=$((stride - 1))
[ "$appends" -le "$appends_max" ] || appends=$appends_max
first=$((kept_bytes / record_bytes))

printf '{"Ready":{"layout":{"device_bytes":%s,"kept_bytes":%s}}}\n' "$bytes" "$kept_bytes"
trap 'stopped=yes' USR1
exec 3<&0
{ read -r line <&3; kill -USR1 $$; } 2> /dev/null &
waiting=$!
# While a write takes long, this shows that the machine can still be reached.
{ while sleep 1; do look_at_clock; printf '{"Alive":{"at_us":%s}}\n' "$at_us"; done; } 2> /dev/null &
alive=$!
trap 'rm -f "$scratch"; kill "$waiting" "$alive" 2> /dev/null' EXIT

number=0
while [ -z "$stopped" ]; do
    number=$((number + 1))
    if [ $((number % 4)) = 2 ]; then
        kind=Appended nth=$((number / 4 % appends))
        at=$((first + 1 + nth))
    else
        kind=Overwritten nth=$((number / 2 % slots))
        at=$((first + nth * stride))
    fi
    # 64 lines of 64 bytes.
    line="csi-sanity-in-use $mark $((1000000000 + number)) .................$newline"
    lines=$line$line$line$line
    lines=$lines$lines$lines$lines
    lines=$lines$lines$lines$lines
    printf %s "$lines" > "$scratch" || exit
    look_at_clock
    printf '{"Begun":{"number":%s,"at_us":%s}}\n' "$number" "$at_us"
    if ! error=$(dd if="$scratch" of="$path" bs=$record_bytes seek=$at count=1 conv=notrunc,fsync 2>&1); then
        case $error in
            *'No space left'*) errno=28 ;;
            *'Read-only file system'*) errno=30 ;;
            *'uota exceeded'*) errno=122 ;;
            *) errno=null ;;
        esac
        error=$(printf %s "$error" | tr '\n' ' ' | tr -dc ' -!#-[]-~')
        look_at_clock
        printf '{"Failed":{"number":%s,"place":{"%s":%s},"operation":"write and fsync","errno":%s,"error":"%s","at_us":%s}}\n' \
            "$number" "$kind" "$nth" "$errno" "$error" "$at_us"
        exit
    fi
    look_at_clock
    printf '{"Acknowledged":{"number":%s,"at_us":%s}}\n' "$number" "$at_us"
    sleep 0.1 2> /dev/null || sleep 1
done
echo '"Ended"'
