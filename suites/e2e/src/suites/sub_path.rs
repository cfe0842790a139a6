use crate::cluster::{Container, Done, Feature, Pod, PodPhase, PodSpec, VolumeMount};
use crate::pattern;
use crate::scene::{Scene, Seen, Volume, failed};
use crate::test;
use crate::test::{Need, Suite};

/// The mount point of the whole volume or the sub-path.
const PATH: &str = "/test-volume";
/// The volume of the pod.
const VOLUME: &str = "volume1";
/// The sub path.
const SUB: &str = "sub";
const TEXT: &str = "mount-tester new file";

pub(crate) static SUITE: Suite = Suite {
    name: "subPath",
    patterns: &[&pattern::DEFAULT_FS, &pattern::NTFS],
    size_min_bytes: 1 << 20,
    tests: &[
        &NON_EXISTENT,
        &EXISTING_DIRECTORY,
        &EXISTING_FILE,
        &FILE_AS_SUB_PATH,
        &DIRECTORY_OUTSIDE,
        &FILE_OUTSIDE,
        &NON_EXISTENT_OUTSIDE,
        &BACKSTEPPING,
        &SEVERAL,
        &RESTARTS_DIRECTORY,
        &RESTARTS_FILE,
        &DELETED_GRACEFULLY,
        &DELETED_BY_FORCE,
        &READ_ONLY_DIRECTORY,
        &READ_ONLY_FILE,
        &READ_ONLY_SOURCE,
        &CANNOT_WRITE,
        &DIRECTORY_DELETED,
    ],
    ..Suite::PLAIN
};

/// Returns a container with the whole volume at [`PATH`].
fn whole(name: &str) -> Container {
    mounted(name, None, false)
}

/// Returns a container with the sub-path at [`PATH`].
fn sub(name: &str) -> Container {
    mounted(name, Some(SUB), false)
}

fn mounted(name: &str, sub_path: Option<&str>, read_only: bool) -> Container {
    let mount = VolumeMount {
        volume: VOLUME.to_owned(),
        path: PATH.to_owned(),
        read_only,
        sub_path: sub_path.map(str::to_owned),
    };
    Container { name: name.to_owned(), mounts: vec![mount], ..Container::default() }
}

fn running(container: Container, script: &str) -> Container {
    Container { script: Some(script.to_owned()), ..container }
}

/// Describes a pod with these init containers and containers.
fn pod(scene: &Scene, volume: &Volume, first: Vec<Container>, containers: Vec<Container>) -> PodSpec {
    let mut spec = scene.pod(&[volume]);
    spec.init_containers = first;
    spec.containers = containers;
    spec.selinux_level = Some("s0:c0,c1".to_owned());
    spec.restarts = false;
    spec
}

/// Runs the pod, which has to succeed.
async fn ends_well(scene: &Scene, spec: &PodSpec) -> Done {
    scene.succeeds(spec, scene.timeouts().pod_start).await?;
    scene.delete_pod(&spec.name).await
}

test! {
    /// A missing sub-path is created, and data written there are in the volume below its name.
    NON_EXISTENT {
        name: "should support non-existent path",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let write = running(sub("write"), &format!("echo '{TEXT}' > {PATH}/file && chmod 0644 {PATH}/file"));
        let read = running(whole("read"), &format!("grep -q '{TEXT}' {PATH}/{SUB}/file"));
        ends_well(scene, &pod(scene, &volume, vec![write], vec![read])).await
    }
}

test! {
    /// A directory of the volume is mounted instead of the volume.
    EXISTING_DIRECTORY {
        name: "should support existing directory",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let make = running(whole("make"), &format!("mkdir -p {PATH}/{SUB}"));
        let write = running(sub("write"), &format!("echo '{TEXT}' > {PATH}/file"));
        let read = running(whole("read"), &format!("grep -q '{TEXT}' {PATH}/{SUB}/file"));
        ends_well(scene, &pod(scene, &volume, vec![make, write], vec![read])).await
    }
}

test! {
    /// A file is read through the mounted directory.
    EXISTING_FILE {
        name: "should support existing single file [LinuxOnly]",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let make = running(whole("make"), &format!("mkdir -p {PATH}/{SUB} && echo '{TEXT}' > {PATH}/{SUB}/file"));
        let read = running(sub("read"), &format!("grep -q '{TEXT}' {PATH}/file"));
        ends_well(scene, &pod(scene, &volume, vec![make], vec![read])).await
    }
}

test! {
    /// A file of the volume is mounted instead of the volume.
    FILE_AS_SUB_PATH {
        name: "should support file as subpath [LinuxOnly]",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let make = running(whole("make"), &format!("echo '{TEXT}' > {PATH}/{SUB}"));
        let read = running(sub("read"), &format!("grep -q '{TEXT}' {PATH}"));
        ends_well(scene, &pod(scene, &volume, vec![make], vec![read])).await
    }
}

test! {
    /// A link out of the volume to a directory is stored, and not followed.
    DIRECTORY_OUTSIDE {
        name: "should fail if subpath directory is outside the volume",
        tags: ["Slow", "LinuxOnly"],
    }
    async |scene| { leads_nowhere(scene, "/bin").await }
}

test! {
    /// A link out of the volume to a file is stored, and not followed.
    FILE_OUTSIDE {
        name: "should fail if subpath file is outside the volume",
        tags: ["Slow", "LinuxOnly"],
    }
    async |scene| { leads_nowhere(scene, "/bin/sh").await }
}

test! {
    /// A link out of the volume to something that does not exist is stored, and not followed.
    NON_EXISTENT_OUTSIDE {
        name: "should fail if non-existent subpath is outside the volume",
        tags: ["Slow", "LinuxOnly"],
    }
    async |scene| { leads_nowhere(scene, "/bin/notanexistingpath").await }
}

test! {
    /// A link to what is above the volume is stored, and not followed.
    BACKSTEPPING {
        name: "should fail if subpath with backstepping is outside the volume",
        tags: ["Slow", "LinuxOnly"],
    }
    async |scene| { leads_nowhere(scene, "../").await }
}

/// Checks that a pod does not start if its sub-path is a link to another place.
async fn leads_nowhere(scene: &Scene, elsewhere: &str) -> Done {
    let volume = scene.volume().await?;
    let make = running(whole("make"), &format!("ln -s {elsewhere} {PATH}/{SUB}"));
    let spec = pod(scene, &volume, vec![make], vec![sub("read")]);
    scene.cluster().create_pod(&spec).await?;
    is_refused(scene, &spec).await?;
    scene.delete_pod(&spec.name).await
}

/// Checks that the sub-path of a pod cannot be mounted.
async fn is_refused(scene: &Scene, spec: &PodSpec) -> Done {
    scene
        .until("the sub path is rejected", scene.timeouts().pod_start, || async {
            let Pod { phase, waiting, .. } = scene.existing_pod(&spec.name).await?;
            let why = waiting.unwrap_or_default();
            Ok(match phase {
                PodPhase::Pending if names_sub_path(&why) => Seen::There(()),
                PodPhase::Pending => Seen::NotYet(why),
                _ => Seen::Never(format!("the pod is {phase:?}")),
            })
        })
        .await
}

fn names_sub_path(why: &str) -> bool {
    why.contains("CreateContainerConfigError") && why.to_lowercase().contains("subpath")
}

test! {
    /// Two directories of one volume are mounted in one container.
    SEVERAL {
        name: "should support creating multiple subpath from same volumes",
        tags: ["Slow"],
    }
    async |scene| {
        let volume = scene.volume().await?;
        let (one, other) = (format!("{PATH}/one"), format!("{PATH}/other"));
        let script = format!(
            "echo '{TEXT}' > {one}/file && chmod 0644 {one}/file && echo '{TEXT}' > {other}/file && chmod 0666 {other}/file && \
             grep -q '{TEXT}' {one}/file && grep -q '{TEXT}' {other}/file && test $(stat -c %a {one}/file) = 644 && \
             test $(stat -c %a {other}/file) = 666"
        );
        let mount = |path: String, sub_path: &str| VolumeMount {
            volume: VOLUME.to_owned(),
            path,
            read_only: false,
            sub_path: Some(sub_path.to_owned()),
        };
        let mounts = vec![mount(one, "one"), mount(other, "other")];
        let write = Container { name: "write".to_owned(), script: Some(script), mounts, ..Container::default() };
        let kept = format!("grep -q '{TEXT}' {PATH}/one/file && grep -q '{TEXT}' {PATH}/other/file");
        ends_well(scene, &pod(scene, &volume, vec![write], vec![running(whole("read"), &kept)])).await
    }
}

test! {
    /// A directory is mounted again when its container restarts. Here the container ends by itself, whereas upstream
    /// uses a failing probe.
    RESTARTS_DIRECTORY {
        name: "should support restarting containers using directory as subpath",
        tags: ["Slow"],
    }
    async |scene| {
        let make = format!("mkdir -p {PATH}/{SUB} && echo '{TEXT}' > {PATH}/{SUB}/file");
        restarts(scene, &make, &format!("{PATH}/file"), &format!("{PATH}/started")).await
    }
}

test! {
    /// A file is mounted again when its container restarts. Here the container ends by itself, whereas upstream uses
    /// a failing probe.
    RESTARTS_FILE {
        name: "should support restarting containers using file as subpath",
        tags: ["Slow", "LinuxOnly"],
    }
    async |scene| {
        restarts(scene, &format!("echo '{TEXT}' > {PATH}/{SUB}"), PATH, PATH).await
    }
}

/// Runs a container that fails on its first start and continues after the second one. `found` has to contain the
/// text; a word in `mark` distinguishes the starts.
async fn restarts(scene: &Scene, make: &str, found: &str, mark: &str) -> Done {
    let volume = scene.volume().await?;
    let script = format!(
        "grep -q '{TEXT}' {found} || exit 2; if grep -q again {mark} 2>/dev/null; then sleep 3600; fi; \
         echo again >> {mark}; exit 1"
    );
    let mut spec =
        pod(scene, &volume, vec![running(whole("make"), make)], vec![running(sub("again"), &script)]);
    spec.restarts = true;
    scene.cluster().create_pod(&spec).await?;
    scene
        .until("the container runs after a restart", scene.timeouts().pod_start, || async {
            let pod = scene.existing_pod(&spec.name).await?;
            if let Some(wrong) = pod.ended.iter().find(|ended| ended.output.code == 2) {
                return Ok(Seen::Never(format!("the sub path does not hold its data: {:?}", wrong.output)));
            }
            let runs = pod.phase == PodPhase::Running && pod.restarts > 0 && pod.waiting.is_none();
            Ok(match runs {
                true => Seen::There(()),
                false => Seen::NotYet(format!("{:?} after {} restarts", pod.phase, pod.restarts)),
            })
        })
        .await?;
    scene.delete_pod(&spec.name).await
}

test! {
    /// The volume of a pod that is deleted while kubelet is down is unmounted when kubelet is back.
    DELETED_GRACEFULLY {
        name: "should unmount if pod is gracefully deleted while kubelet is down",
        tags: ["Disruptive", "Slow", "LinuxOnly"],
        needs: [Need::Offers(Feature::NodeAccess)],
    }
    async |scene| { deleted_without_kubelet(scene, false).await }
}

test! {
    /// The volume of a pod that is deleted by force while kubelet is down is unmounted when kubelet is back.
    DELETED_BY_FORCE {
        name: "should unmount if pod is force deleted while kubelet is down",
        tags: ["Disruptive", "Slow", "LinuxOnly"],
        needs: [Need::Offers(Feature::NodeAccess)],
    }
    async |scene| { deleted_without_kubelet(scene, true).await }
}

async fn deleted_without_kubelet(scene: &Scene, force: bool) -> Done {
    let volume = scene.volume().await?;
    let pod = scene.run(pod(scene, &volume, Vec::new(), vec![sub("wait")])).await?;
    scene.cluster().stop_kubelet(&pod.node).await?;
    scene.cluster().delete_pod(&pod.name, force).await?;
    scene.cluster().start_kubelet(&pod.node).await?;
    scene.pod_gone(&pod.name).await?;
    scene.nothing_left_of(&pod).await
}

test! {
    /// A container reads through a read-only sub-path.
    READ_ONLY_DIRECTORY {
        name: "should support readOnly directory specified in the volumeMount",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let make = running(whole("make"), &format!("mkdir -p {PATH}/{SUB} && echo '{TEXT}' > {PATH}/{SUB}/file"));
        let script = format!("grep -q '{TEXT}' {PATH}/file && ! touch {PATH}/other");
        let read = running(mounted("read", Some(SUB), true), &script);
        ends_well(scene, &pod(scene, &volume, vec![make], vec![read])).await
    }
}

test! {
    /// A container reads a read-only file.
    READ_ONLY_FILE {
        name: "should support readOnly file specified in the volumeMount [LinuxOnly]",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let make = running(whole("make"), &format!("echo '{TEXT}' > {PATH}/{SUB}"));
        let script = format!("grep -q '{TEXT}' {PATH} && ! (echo more >> {PATH})");
        let read = running(mounted("read", Some(SUB), true), &script);
        ends_well(scene, &pod(scene, &volume, vec![make], vec![read])).await
    }
}

test! {
    /// A pod with a read-only volume reads through a sub-path the data of another pod.
    READ_ONLY_SOURCE {
        name: "should support existing directories when readOnly specified in the volumeSource",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let make = running(whole("make"), &format!("mkdir -p {PATH}/{SUB}"));
        let write = running(sub("write"), &format!("echo '{TEXT}' > {PATH}/file && grep -q '{TEXT}' {PATH}/file"));
        ends_well(scene, &pod(scene, &volume, vec![make], vec![write])).await?;
        let read = running(sub("read"), &format!("grep -q '{TEXT}' {PATH}/file"));
        ends_well(scene, &pod(scene, &volume.read_only(), Vec::new(), vec![read])).await
    }
}

test! {
    /// A pod with a read-only volume cannot write through a sub-path.
    CANNOT_WRITE {
        name: "should verify container cannot write to subpath readonly volumes",
        tags: ["Slow"],
    }
    async |scene| {
        let volume = scene.volume().await?;
        // The first pod may write, so that there is a file system.
        ends_well(scene, &pod(scene, &volume, Vec::new(), vec![running(whole("format"), "true")])).await?;
        let write = running(sub("write"), &format!("echo '{TEXT}' > {PATH}/file"));
        let spec = pod(scene, &volume.read_only(), Vec::new(), vec![write]);
        scene.cluster().create_pod(&spec).await?;
        let refused = scene.until("the container fails", scene.timeouts().pod_start, || async {
            let pod = scene.existing_pod(&spec.name).await?;
            let why = pod.waiting.clone().unwrap_or_default();
            Ok(match pod.phase {
                PodPhase::Failed => Seen::There(true),
                PodPhase::Succeeded => Seen::There(false),
                _ if names_sub_path(&why) => Seen::There(true),
                _ => Seen::NotYet(why),
            })
        });
        if !refused.await? {
            return Err(failed("a container has written to a volume that is read-only for its pod", "a failure", "exit code 0"));
        }
        scene.delete_pod(&spec.name).await
    }
}

test! {
    /// A pod can be deleted after the directory of its sub-path.
    DIRECTORY_DELETED {
        name: "should be able to unmount after the subpath directory is deleted [LinuxOnly]",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let spec = pod(scene, &volume, Vec::new(), vec![whole("whole"), sub("sub")]);
        let pod = scene.run(spec).await?;
        pod.sh(&format!("rm -r {PATH}/{SUB}")).await?;
        pod.delete().await
    }
}
