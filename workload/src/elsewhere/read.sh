# Prints what is in each place of a workload, at the path $1: its number behind an @, and its lines, each once with its count. $2 is the
# first record of the range, $3 the distance between two overwritten records, $4 the number of these, and $5 that of the appended ones.
path=$1 first=$2 stride=$3 slots=$4 appends=$5
[ ! -d "$path" ] || path=$path/csi-sanity-in-use
[ -e "$path" ] || exit 0
scratch=$(mktemp) || exit
trap 'rm -f "$scratch"' EXIT
# Not every dd can read past the cache, and not every file system.
direct=iflag=direct
dd if="$path" of=/dev/null bs=4096 count=1 $direct 2> /dev/null || direct=

# Prints a place of number $1, which is the record $2 of the range.
place() {
    dd if="$path" of="$scratch" bs=4096 skip=$((first + $2)) count=1 $direct 2> /dev/null || exit 1
    echo "@ $1"
    tr -dc '\n -~' < "$scratch" | uniq -c
}

nth=0
while [ $nth -lt "$slots" ]; do
    place $nth $((nth * stride))
    nth=$((nth + 1))
done
while [ $nth -lt $((slots + appends)) ]; do
    place $nth $((nth - slots + 1))
    nth=$((nth + 1))
done
