//! The scripts that the pod of a node runs there.

use std::time::Duration;

use csi_harness::resources::mounts::Mount;
use csi_harness::text::encoding::shell_word;

/// The exit code of [`STOPPED`] before kubelet is started again.
pub(super) const NOT_YET: i32 = 75;

/// Prints the result of stopping kubelet, once it is started again: the exit code and the output.
pub(super) const STOPPED: &str =
    "[ ! -e /guard ] || exit 75; cat /stop.out; read -r code < /stop.code && exit \"$code\"";

/// Waits until kubelet is started again.
pub(super) const WAIT_FOR_GUARD: &str = "while [ -e /guard ]; do sleep 1; done";

/// The environment of commands on a node. systemctl would do nothing if it knew that its root directory was changed.
const ENVIRONMENT: &str =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin SYSTEMD_IGNORE_CHROOT=1";

/// Stops kubelet and starts it again, even if stopping takes longer than the intended pause.
const GUARD: &str = r#"
trap '' HUP INT TERM
start() {
    tries=100
    until on_host "$START" > start.out 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return
        sleep 5
    done
}
{ on_host "$STOP" > stop.out 2>&1; echo $? > stop.code; } &
sleep "$DOWN_SECONDS"
start
wait
start
rm guard
"#;

/// Runs a shell command in the root directory of the node.
pub(super) fn on_host(host: &str, command: &str) -> String {
    format!("env -i {ENVIRONMENT} chroot {host} sh -c {} 2>&1", shell_word(command))
}

/// Stops kubelet, and starts it again after `down`, in a process that survives the end of the connection and of
/// kubelet. It ends when kubelet is stopped, as far as kubelet permits, with the output of the command.
pub(super) fn stop(host: &str, stop: &str, start: &str, down: Duration) -> String {
    guarded("/", &format!("env -i {ENVIRONMENT} chroot {host} sh -c \"$1\""), [stop, start], down)
}

fn guarded(dir: &str, on_host: &str, [stop, start]: [&str; 2], down: Duration) -> String {
    let guard = shell_word(&format!("on_host() {{ {on_host}; }}\n{GUARD}"));
    let (stop, start, seconds) = (shell_word(stop), shell_word(start), down.as_secs());
    format!(
        "cd {dir} && rm -f stop.code && touch guard || exit 1\n\
         STOP={stop} START={start} DOWN_SECONDS={seconds} setsid sh -c {guard} < /dev/null > /dev/null 2>&1 &\n\
         while [ ! -s stop.code ]; do sleep 1; done\n\
         cat stop.out; read -r code < stop.code && exit \"$code\""
    )
}

/// Prints kubelet's paths for the volumes of a pod, and then all mounts. It enters no mount, because the driver may
/// be about to unmount it.
pub(super) fn paths_of_pod(kubelet: &str, uid: &str) -> String {
    let uid = shell_word(uid);
    format!(
        "cd {kubelet} || exit 1\n\
         for path in pods/{uid}/volumes/kubernetes.io~csi/* pods/{uid}/volumeDevices/kubernetes.io~csi/* \
         plugins/kubernetes.io/csi/volumeDevices/*/dev/{uid}; do\n\
         if [ -e \"$path\" ] || [ -L \"$path\" ]; then echo \"$path\"; fi\n\
         done\n\
         cat /proc/self/mountinfo"
    )
}

/// Returns the paths in the output of [`paths_of_pod`] as they are on the node.
pub(super) fn paths(printed: &str, kubelet: &str, kubelet_dir: &str, uid: &str) -> Vec<String> {
    let places = ["volumes/kubernetes.io~csi", "volumeDevices/kubernetes.io~csi", "volume-subpaths"];
    let of_pod = places.map(|place| format!("pods/{uid}/{place}/"));
    let mounted = |line: &str| {
        let mount = Mount::read(line)?;
        let path = mount.point.to_str()?.strip_prefix(kubelet)?.strip_prefix('/')?;
        of_pod.iter().any(|place| path.starts_with(place)).then(|| path.to_owned())
    };
    let path = |line: &str| if line.contains(' ') { mounted(line) } else { Some(line.to_owned()) };
    let on_node = |path: String| format!("{}/{path}", kubelet_dir.trim_end_matches('/'));
    printed.lines().filter_map(path).map(on_node).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::process::{Command, Output};

    use super::*;

    fn sh(script: &str) -> Output {
        Command::new("sh").args(["-c", script]).output().unwrap()
    }

    fn stdout(output: &Output) -> String {
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Stops as on a node, returns the result, and waits for the guard.
    fn stopped(dir: &Path, stop: &str, start: &str) -> Output {
        let at = dir.display().to_string();
        let output = sh(&guarded(&at, "sh -c \"$1\"", [stop, start], Duration::ZERO));
        assert!(
            sh(&format!("cd {at} && timeout 60 sh -c 'while [ -e guard ]; do sleep 0.1; done'"))
                .status
                .success()
        );
        output
    }

    #[test]
    fn kubelet_is_started_after_it_was_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        let [stop, start] = ["stop", "start"].map(|word| format!("echo '{word}' >> {at}/log"));
        let output = stopped(dir.path(), &format!("{stop}; sleep 1; echo it\\'s done"), &start);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "it's done\n"));
        let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
        // The first start and the beginning of the stop race, because no time is left between them.
        let starts = log.matches("start\n").count();
        assert!(
            starts == 2 && log.ends_with("start\n") && log.contains("stop\n"),
            "once in time, and once after its end: {log}"
        );
    }

    #[test]
    fn kubelet_is_started_also_where_stopping_it_failed() {
        let dir = tempfile::tempdir().unwrap();
        let start = format!("echo start >> {}/log", dir.path().display());
        let output = stopped(dir.path(), "echo no such unit >&2; exit 5", &start);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(5), "no such unit\n"));
        assert!(dir.path().join("log").exists());
    }

    #[test]
    fn kubelet_starts_also_when_the_asker_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display().to_string();
        assert!(sh(&format!("mkfifo {at}/down")).status.success());
        // The stop continues until its caller is dead.
        let [stop, start] = [format!("read -r word < {at}/down"), format!("echo start >> {at}/log")];
        let mut asking = Command::new("sh")
            .args(["-c", &guarded(&at, "sh -c \"$1\"", [&stop, &start], Duration::ZERO)])
            .spawn()
            .unwrap();
        assert!(
            sh(&format!("timeout 60 sh -c 'while [ ! -e {at}/log ]; do sleep 0.1; done'")).status.success()
        );
        asking.kill().unwrap();
        asking.wait().unwrap();
        std::fs::remove_file(dir.path().join("log")).unwrap();
        assert!(
            sh(&format!(
                "timeout 60 sh -c 'echo go > {at}/down; while [ -e {at}/guard ]; do sleep 0.1; done'"
            ))
            .status
            .success()
        );
        assert_eq!(std::fs::read_to_string(dir.path().join("log")).unwrap(), "start\n");
    }

    #[test]
    fn the_files_of_a_pod_are_listed_as_on_the_node() {
        let dir = tempfile::tempdir().unwrap();
        let kubelet = dir.path().display().to_string();
        let pods = dir.path().join("pods");
        for path in [
            "u-1/volumes/kubernetes.io~csi/pvc-1/mount",
            "u-1/volumes/kubernetes.io~projected/token",
            "u-2/volumes/kubernetes.io~csi/pvc-2",
        ] {
            std::fs::create_dir_all(pods.join(path)).unwrap();
        }
        std::fs::create_dir_all(pods.join("u-1/volumeDevices/kubernetes.io~csi")).unwrap();
        symlink("/nowhere", pods.join("u-1/volumeDevices/kubernetes.io~csi/pvc-3")).unwrap();
        let printed = stdout(&sh(&paths_of_pod(&kubelet, "u-1")));
        let found = paths(&printed, &kubelet, "/var/lib/kubelet/", "u-1");
        let of_pod = "/var/lib/kubelet/pods/u-1";
        let expected = [
            format!("{of_pod}/volumes/kubernetes.io~csi/pvc-1"),
            format!("{of_pod}/volumeDevices/kubernetes.io~csi/pvc-3"),
        ];
        assert_eq!(found, expected);
        assert_eq!(paths(&stdout(&sh(&paths_of_pod(&kubelet, "u-3"))), &kubelet, "/k", "u-3"), [""; 0]);
        assert!(!sh(&paths_of_pod("/nonexistent", "u-1")).status.success());
    }

    #[test]
    fn only_mounts_below_a_pod_are_listed() {
        let line = |at: &str| format!("450 432 254:0 / {at} rw,relatime master:1 - ext4 /dev/vda rw\n");
        let printed: String = [
            "/kubelet",
            "/kubelet/pods/u-1/volumes/kubernetes.io~csi/pvc-1/mount",
            "/kubelet/pods/u-1/volumes/kubernetes.io~projected/token",
            "/kubelet/pods/u-1/volume-subpaths/pvc-1/c/0",
            "/kubelet/pods/u-10/volumes/kubernetes.io~csi/pvc-1/mount",
            "/host/var/lib/kubelet/pods/u-1/volumes/kubernetes.io~csi/pvc-1/mount",
        ]
        .map(line)
        .concat();
        let found = paths(&printed, "/kubelet", "/k", "u-1");
        assert_eq!(
            found,
            ["/k/pods/u-1/volumes/kubernetes.io~csi/pvc-1/mount", "/k/pods/u-1/volume-subpaths/pvc-1/c/0"]
        );
    }
}
