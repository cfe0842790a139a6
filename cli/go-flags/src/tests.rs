use super::*;

/// Names of all flags that the Go program lists in its help.
const GO_HELP: &str = include_str!("go-flags.txt");

fn ours(arguments: &[&str]) -> Result<Vec<String>, String> {
    let translated = translate(arguments.iter().map(Into::into).collect(), false)?;
    Ok(translated.arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect())
}

fn check(arguments: &[&str], expected: &[&str]) {
    let with_endpoint = [&["-csi.endpoint", "/csi.sock"], arguments].concat();
    let expected = [&["run", "--suite=sanity,after-error", "--endpoint=/csi.sock"], expected].concat();
    assert_eq!(ours(&with_endpoint).unwrap(), expected, "{arguments:?}");
}

fn refused(arguments: &[&str], parts: &[&str]) {
    let error = ours(arguments).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{arguments:?}: {part:?} is missing in {error:?}");
    }
}

#[test]
fn every_flag_of_the_go_program_is_known_and_no_other() {
    let mut theirs: Vec<&str> = GO_HELP.lines().collect();
    let mut known: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
    theirs.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, theirs);
}

#[test]
fn one_or_two_dashes_equals_sign_or_space() {
    for typed in [["-csi.mountdir", "/m"], ["--csi.mountdir", "/m"]] {
        check(&typed, &["--mount-dir=/m"]);
    }
    check(&["-csi.mountdir=/m"], &["--mount-dir=/m"]);
    check(&["--csi.mountdir=/a=b"], &["--mount-dir=/a=b"]);
}

#[test]
fn each_flag_takes_a_value_of_its_kind() {
    for flag in FLAGS.iter().chain(OTHERS).filter(|flag| ![DEFINITION, KUBECONFIG].contains(&flag.name)) {
        let value = match flag.takes {
            Takes::Switch => "true",
            Takes::Endpoint => "unix:///csi.sock",
            Takes::Text | Takes::File | Takes::Regex => "text",
            Takes::Access => "block",
            Takes::Duration => "1m30s",
            Takes::Bytes | Takes::Number => "7",
        };
        let arguments = ["-csi.endpoint=/csi.sock".to_owned(), format!("-{}={value}", flag.name)];
        let translated = translate(arguments.map(OsString::from).to_vec(), false).unwrap();
        match flag.means {
            Means::Nothing(why) => {
                assert!(translated.notes[0].contains(why), "{translated:?}");
                assert_eq!(translated.arguments.len(), 3, "{translated:?}");
            }
            Means::Flag(ours) | Means::Twice(ours) => {
                let last = translated.arguments.last().unwrap().to_str().unwrap();
                assert!(last.starts_with(ours), "{translated:?}");
            }
            Means::Report(kind) => {
                let report = format!("--report={kind}=text");
                assert_eq!(translated.arguments.last().unwrap(), report.as_str());
            }
        }
    }
}

#[test]
fn switches_take_no_further_argument() {
    check(&["-csi.testnodevolumeattachlimit", "-ginkgo.v"], &["--attach-limit", "--verbose"]);
    check(&["-csi.testnodevolumeattachlimit=true"], &["--attach-limit"]);
    check(&["-csi.testnodevolumeattachlimit=F", "--ginkgo.fail-fast=0"], &[]);
    check(&["-ginkgo.vv"], &["--verbose", "--verbose"]);
}

#[test]
fn what_go_takes_for_its_default_is_left_out() {
    check(&["-csi.secrets=", "-csi.testvolumesize=0", "-ginkgo.focus", ""], &[]);
    check(&["-csi.testvolumesize", "0x100000"], &["--volume-size-bytes=1048576"]);
}

#[test]
fn access_types_are_read_as_go_reads_them() {
    check(&["-csi.testvolumeaccesstype", " Block "], &["--access-type=block"]);
}

#[test]
fn our_own_flags_and_commands_pass() {
    check(&["--strict", "-vv", "--filter", "!a/b"], &["--strict", "-vv", "--filter", "!a/b"]);
    assert_eq!(ours(&["list", "--format", "json"]).unwrap(), ["list", "--format", "json"]);
    let with_suite = ["run", "--suite=sanity,after-error", "--focus=a", "--endpoint=/s"];
    assert_eq!(ours(&["run", "-ginkgo.focus=a", "--endpoint=/s"]).unwrap(), with_suite);
    assert_eq!(ours(&["list", "-ginkgo.focus=a"]).unwrap(), ["list", "--focus=a"]);
    assert_eq!(ours(&[]).unwrap(), ["run"]);
    assert_eq!(ours(&["-vv"]).unwrap(), ["run", "-vv"]);
    assert_eq!(ours(&["-version"]).unwrap(), ["--version"]);
    assert_eq!(ours(&["-ginkgo.v", "-version"]).unwrap(), ["--version"]);
    assert_eq!(ours(&["--help"]).unwrap(), ["--help"]);
    assert_eq!(ours(&["explain", "--", "-csi.nonsense"]).unwrap(), ["explain", "--", "-csi.nonsense"]);
}

#[test]
fn wrong_values_name_the_flag_and_what_is_allowed() {
    refused(&["--csi.testvolumeaccesstype=nfs"], &["--csi.testvolumeaccesstype:", "nfs", "mount or block"]);
    refused(&["-csi.createpathcmdtimeout", "10"], &["-csi.createpathcmdtimeout:", "10s"]);
    refused(&["-csi.testvolumesize=10Gi"], &["-csi.testvolumesize:", "10Gi", "bytes"]);
    refused(&["-csi.testvolumesize=-1"], &["-csi.testvolumesize:", "negative"]);
    refused(&["-ginkgo.fail-fast=maybe"], &["-ginkgo.fail-fast:", "true or false"]);
    refused(&["-ginkgo.focus", "(a"], &["-ginkgo.focus:", "(a"]);
    refused(&["-csi.endpoint="], &["-csi.endpoint:", "empty"]);
    refused(&["-csi.endpoint"], &["-csi.endpoint needs a value"]);
}

#[test]
fn unknown_flags_get_a_suggestion() {
    refused(&["-csi.mountdirs=/m"], &["-csi.mountdirs;", "did you mean", "csi.mountdir"]);
    refused(&["--ginkgo.fokus=a"], &["ginkgo.focus"]);
}

#[test]
fn a_driver_that_is_spoken_of_has_to_be_named() {
    refused(&["-csi.mountdir=/m"], &["-csi.mountdir", "-csi.endpoint"]);
    assert!(translate(vec!["-csi.mountdir=/m".into()], true).is_ok(), "the environment names it");
    assert!(ours(&["-csi.mountdir=/m", "--endpoint", "/csi.sock"]).is_ok());
    refused(&["-ginkgo.v"], &["-ginkgo.v is a flag of the Go csi-sanity", "-csi.endpoint"]);
    refused(&["run", "-test.v"], &["-test.v", "-csi.endpoint"]);
    assert!(ours(&["-ginkgo.v", "--help"]).is_ok());
}

#[test]
fn the_flags_of_the_go_program_run_what_it_is() {
    let arguments = ["-csi.endpoint=/csi.sock", "-ginkgo.v"].map(OsString::from);
    let translated = translate(arguments.to_vec(), false).unwrap();
    assert_eq!(
        translated.arguments,
        ["run", "--suite=sanity,after-error", "--endpoint=/csi.sock", "--verbose"]
    );
    let [hint] = &translated.notes[..] else { panic!("{:?}", translated.notes) };
    assert!(hint.contains("all suites: csi-sanity run"), "{hint}");
    let arguments = ["-csi.endpoint=/csi.sock", "--suite", "data"].map(OsString::from);
    let translated = translate(arguments.to_vec(), false).unwrap();
    assert_eq!(translated.arguments, ["run", "--endpoint=/csi.sock", "--suite", "data"]);
    assert!(translated.notes.is_empty());
}

#[test]
fn flags_have_the_other_names_of_ginkgo() {
    for none in
        ["-ginkgo.randomizeAllSpecs", "-randomizeall", "-randomizeAllSpecs=true", "-ginkgo.randomize_all"]
    {
        check(&[none], &[]);
    }
    check(
        &["-ginkgo.failFast", "-focus", "a", "-ginkgo.reportFile=r.xml"],
        &["--fail-fast", "--focus=a", "--report=junit=r.xml"],
    );
    check(&["-test.v", "-test.timeout=20m", "-test.run", "TestSanity"], &["--verbose", "--timeout=20m"]);
    refused(&["-test.tiemout=1s"], &["-test.tiemout", "test.timeout"]);
}

#[test]
fn a_definition_for_e2e_test_is_one_for_e2e() {
    assert_eq!(
        ours(&["-storage.testdriver=d.yaml", "-kubeconfig=k", "-ginkgo.focus=a"]).unwrap(),
        ["e2e", "--driver-definition=d.yaml", "--kubeconfig=k", "--focus=a", "--cluster=kube"]
    );
    assert_eq!(
        ours(&["--storage.testdriver", "d.yaml", "--endpoint=/s"]).unwrap(),
        ["e2e", "--driver-definition=d.yaml", "--endpoint=/s"]
    );
    assert_eq!(
        ours(&["-storage.testdriver=a.yaml", "-storage.testdriver", "b.yaml", "--endpoint=/s"]).unwrap(),
        ["e2e", "--driver-definition=a.yaml", "--driver-definition=b.yaml", "--endpoint=/s"]
    );
    assert_eq!(ours(&["e2e", "--kubeconfig", "k"]).unwrap(), ["e2e", "--kubeconfig", "k"]);
    refused(&["-storage.testdriver=d.yaml"], &["--endpoint", "--cluster kube"]);
}
