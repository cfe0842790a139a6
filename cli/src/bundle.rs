//! `--bundle FILE`: all evidence of a run in one archive, with a digest of each file. `csi-sanity verify` checks such an archive, and
//! trusts nothing in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use csi_harness::client::target::Target;
use csi_harness::driver::DriverLog;
use csi_harness::results::stored;
use csi_harness::text::encoding::hex;
use csi_harness::text::message::error_chain;
use csi_report::{Destination, Format, Run};
use csi_suite_e2e::definition::Definition;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::args::{OutputArgs, VerifyArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::provenance;
use crate::stop::say;

/// The form of the manifest.
const SCHEMA: &str = "csi-sanity/bundle/v1";
const MANIFEST: &str = "manifest.json";
const REPORT: &str = "report.json";
/// The written reports, in the order in which they are in the archive.
const REPORTS: [(&str, Format); 4] = [
    (REPORT, Format::Json),
    ("junit.xml", Format::Junit),
    ("report.html", Format::Html),
    ("report.md", Format::Markdown),
];

/// The largest part of the driver's output that is kept, which is its end.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// The largest size of any other file of the user.
const COPIED_BYTES_MAX: u64 = 4 << 20;
/// The largest number of stored cases.
const CASES_MAX: usize = 1_000;
/// The longest name of a stored case, for which an archive has room.
const NAME_BYTES_MAX: usize = 100;
/// The largest program of which a digest is made.
const PROGRAM_BYTES_MAX: u64 = 4 << 30;
/// The number of bytes that are read at a time.
const PART_BYTES: usize = 64 << 10;

/// The largest number of files in an archive that is verified.
const FILES_MAX: usize = 10_000;
/// The largest size of one of its files.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The largest size of all its files together.
const ARCHIVE_BYTES_MAX: u64 = 1 << 30;
/// The longest path in it.
const PATH_BYTES_MAX: usize = 255;

/// The first file of an archive.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    schema: String,
    /// The version of csi-sanity, with the commit that it was built from.
    version: String,
    /// The programs that listened at the driver's endpoints, as far as they could be found.
    programs: Vec<Program>,
    files: Vec<FileEntry>,
    /// Files that are not in the archive, each with the reason.
    missing: Vec<String>,
}

/// A program of the driver.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    path: String,
    sha256: String,
}

/// A file of the archive.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileEntry {
    path: String,
    bytes: u64,
    sha256: String,
}

impl FileEntry {
    fn of(path: &str, contents: &[u8]) -> FileEntry {
        let sha256 = hex(&Sha256::digest(contents));
        FileEntry { path: path.to_owned(), bytes: contents.len() as u64, sha256 }
    }
}

/// The place for an archive, which was found writable before the run.
#[derive(Debug)]
pub(crate) struct Bundle(Destination);

/// The sources of an archive, beside the reports.
#[derive(Debug, Default)]
pub(crate) struct Evidence<'a> {
    pub(crate) programs: Vec<Program>,
    pub(crate) log: Option<&'a DriverLog>,
    pub(crate) known_failing: Option<&'a Path>,
    pub(crate) definitions: &'a [Arc<Definition>],
    /// The directory of `--regressions`.
    pub(crate) regressions: Option<&'a Path>,
    /// The case that is replayed.
    pub(crate) replayed: Option<&'a Path>,
}

impl Bundle {
    /// Opens the place that the user names, if there is one.
    pub(crate) fn open(
        args: &OutputArgs,
        reports: &[(Format, Destination)],
    ) -> Result<Option<Bundle>, Error> {
        let Some(path) = &args.bundle else { return Ok(None) };
        let refuse = |problem| Err(Error::flag("--bundle", problem));
        let destination = Destination::open(path).map_err(|source| Error::Bundle { source })?;
        if destination.is_stdout() {
            return refuse("an archive is no text for the standard output; name a file");
        }
        let file = destination.file();
        if file.is_some() && reports.iter().any(|(_, report)| report.file() == file) {
            return refuse("a report goes to this file; name another one");
        }
        Ok(Some(Bundle(destination)))
    }

    /// Writes the archive, and returns a sentence that identifies it.
    pub(crate) fn write(self, run: &Run, evidence: Evidence<'_>) -> Result<String, Error> {
        let place = self.0.path().display().to_string();
        let (files, missing) = collect(run, &evidence);
        let manifest = Manifest {
            schema: SCHEMA.to_owned(),
            version: env!("CSI_SANITY_VERSION").to_owned(),
            programs: evidence.programs,
            files: files.iter().map(|(path, contents)| FileEntry::of(path, contents)).collect(),
            missing,
        };
        // Strings, numbers and lists can always be written as JSON.
        let manifest = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
        let digest = hex(&Sha256::digest(&manifest));
        let archive = packed(&manifest, &files).map_err(Error::Packing)?;
        self.0.write(archive).map_err(|source| Error::Bundle { source })?;
        Ok(format!("the evidence is in {place}; the SHA-256 of its manifest is {digest}"))
    }
}

/// The files of an archive, and a message for each file that could not be read.
fn collect(run: &Run, evidence: &Evidence<'_>) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
    let (mut files, mut missing) = (Vec::new(), Vec::new());
    let mut add = |path: &str, contents: io::Result<Vec<u8>>| match contents {
        Ok(_) if path.rsplit('/').next().is_some_and(|name| name.len() > NAME_BYTES_MAX) => {
            missing.push(format!("{path}: its name is longer than {NAME_BYTES_MAX} bytes"));
        }
        Ok(contents) => files.push((path.to_owned(), contents)),
        Err(error) => missing.push(format!("{path}: {error}")),
    };
    for (path, format) in REPORTS {
        add(path, Ok(format.render(run).into_bytes()));
    }
    let settings = std::iter::once(&run.command).chain(&run.settings);
    add("settings.txt", Ok(settings.flat_map(|line| [line.as_str(), "\n"]).collect::<String>().into_bytes()));
    if let Some(log) = evidence.log {
        add("driver.log", log.without_secrets(LOG_BYTES_MAX).map(String::into_bytes));
    }
    if let Some(list) = evidence.known_failing {
        add("known-failing.txt", copied(list));
    }
    for definition in evidence.definitions {
        let label = definition.label.as_ref().map_or_else(String::new, |label| format!("@{label}"));
        let contents = copied(&definition.path).and_then(|yaml| without_secrets(&yaml));
        add(&format!("driver-definition{label}.json"), contents);
    }
    let stored = evidence.regressions.map(|directory| stored::files(directory, "yaml", CASES_MAX));
    let mut cases: Vec<PathBuf> = match stored.transpose() {
        Ok(cases) => cases.unwrap_or_default(),
        Err(error) => {
            add("cases", Err(io::Error::other(error_chain(&error))));
            Vec::new()
        }
    };
    cases.extend(evidence.replayed.map(Path::to_owned));
    cases.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    cases.dedup_by(|one, other| one.file_name() == other.file_name());
    for case in &cases {
        let name = case.file_name().unwrap_or_default().to_string_lossy();
        add(&format!("cases/{name}"), copied(case));
    }
    (files, missing)
}

/// The contents of a file of the user.
fn copied(path: &Path) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    File::open(path)?.take(COPIED_BYTES_MAX + 1).read_to_end(&mut contents)?;
    match contents.len() as u64 > COPIED_BYTES_MAX {
        true => Err(io::Error::other(format!("it is longer than {COPIED_BYTES_MAX} bytes"))),
        false => Ok(contents),
    }
}

/// A YAML file as JSON, without the values that have the names of secrets.
fn without_secrets(yaml: &[u8]) -> io::Result<Vec<u8>> {
    let text = std::str::from_utf8(yaml).map_err(io::Error::other)?;
    let value = serde_saphyr::from_str(text).map_err(io::Error::other)?;
    serde_json::to_vec_pretty(&provenance::strip(value)).map_err(io::Error::other)
}

/// The archive. The manifest comes first.
fn packed(manifest: &[u8], files: &[(String, Vec<u8>)]) -> io::Result<Vec<u8>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let files = files.iter().map(|(path, contents)| (path.as_str(), contents.as_slice()));
    for (path, contents) in std::iter::once((MANIFEST, manifest)).chain(files) {
        let mut header = tar::Header::new_ustar();
        header.set_path(path)?;
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(now.as_secs());
        header.set_cksum();
        archive.append(&header, contents)?;
    }
    archive.into_inner()?.finish()
}

/// The programs of the driver that this machine runs, each once.
pub(crate) async fn programs(target: &Target) -> Vec<Program> {
    let processes = target.processes().await;
    let digests = tokio::task::spawn_blocking(move || {
        let programs: BTreeMap<String, String> = processes.into_iter().filter_map(program).collect();
        programs.into_iter().map(|(path, sha256)| Program { path, sha256 }).collect()
    });
    digests.await.unwrap_or_default()
}

/// The path and the digest of the program that a process runs; `None` if they cannot be read.
fn program(process: u32) -> Option<(String, String)> {
    let link = Path::new("/proc").join(process.to_string()).join("exe");
    let path = std::fs::read_link(&link).ok()?.display().to_string();
    let file = File::open(link).ok()?;
    if file.metadata().ok()?.len() > PROGRAM_BYTES_MAX {
        return None;
    }
    let (mut digest, mut file) = (Sha256::new(), file.take(PROGRAM_BYTES_MAX));
    let mut part = vec![0; PART_BYTES];
    loop {
        match file.read(&mut part).ok()? {
            0 => return Some((path, hex(&digest.finalize()))),
            bytes => digest.update(&part[..bytes]),
        }
    }
}

/// Checks an archive, and ends as the run in it did.
pub(crate) fn verify(args: &VerifyArgs) -> Result<Exit, Error> {
    let path = || args.bundle.clone();
    let file = File::open(&args.bundle).map_err(|source| Error::UnreadableBundle { path: path(), source })?;
    let Unpacked { manifest, digest, report, differences } =
        unpacked(BufReader::new(file)).map_err(|problem| Error::NoBundle { path: path(), problem })?;
    let mut out = anstream::stdout().lock();
    if !differences.is_empty() {
        writeln!(out, "{} is not as csi-sanity wrote it:", args.bundle.display())?;
        differences.iter().try_for_each(|difference| writeln!(out, "  {difference}"))?;
        return Ok(Exit::Broken);
    }
    let report = Run::parse(&format!("{} in {}", REPORT, args.bundle.display()), &report)?;
    writeln!(out, "{} {}", plain(&report.target.driver()), plain(&report.conclude_briefly().words))?;
    for Program { path, sha256 } in &manifest.programs {
        writeln!(out, "driver   {} with the SHA-256 {}", plain(path), plain(sha256))?;
    }
    writeln!(out, "run      by csi-sanity {}, {}", plain(&manifest.version), plain(&report.started))?;
    writeln!(out, "files    {}, each as the manifest has it", manifest.files.len())?;
    for missing in &manifest.missing {
        writeln!(out, "missing  {}", plain(missing))?;
    }
    writeln!(out, "manifest with the SHA-256 {digest}")?;
    Ok(report.verdict.into())
}

/// A text of an archive without control characters, which could change the terminal.
fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// The contents of an archive.
#[derive(Debug)]
struct Unpacked {
    manifest: Manifest,
    /// The digest of the manifest.
    digest: String,
    /// The JSON report.
    report: Vec<u8>,
    /// The files that are not as the manifest has them.
    differences: Vec<String>,
}

/// Reads an archive. Nothing in it is written to the disk.
fn unpacked(archive: impl BufRead) -> Result<Unpacked, String> {
    let wrong = |error: io::Error| error.to_string();
    let mut archive = tar::Archive::new(GzDecoder::new(archive).take(ARCHIVE_BYTES_MAX));
    let mut found = BTreeMap::<String, FileEntry>::new();
    let (mut manifest, mut report) = (None, Vec::new());
    // Raw, because names in entries of their own have no limit.
    for entry in archive.entries().map_err(wrong)?.raw(true) {
        let mut entry = entry.map_err(wrong)?;
        let path = path_of(&entry.path_bytes())?;
        if entry.header().entry_type() != tar::EntryType::Regular {
            return Err(format!("{path} is not a regular file"));
        }
        let bytes = entry.size();
        if bytes > FILE_BYTES_MAX || found.len() >= FILES_MAX {
            return Err(format!(
                "it has more than {FILES_MAX} files, or one of more than {FILE_BYTES_MAX} bytes"
            ));
        }
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).map_err(wrong)?;
        if contents.len() as u64 != bytes {
            return Err(format!("it ends within {path}, or unpacks to more than {ARCHIVE_BYTES_MAX} bytes"));
        }
        let entry = FileEntry::of(&path, &contents);
        match path.as_str() {
            MANIFEST => manifest = Some((contents, entry.sha256.clone())),
            REPORT => report = contents,
            _ => {}
        }
        if found.insert(path.clone(), entry).is_some() {
            return Err(format!("{path} is in it twice"));
        }
    }
    // The checksum of the compressed bytes is at their end.
    let mut rest = archive.into_inner();
    let ends = only_zeros_follow(&mut rest).map_err(wrong)?
        && rest.into_inner().into_inner().fill_buf().map_err(wrong)?.is_empty();
    let (manifest, digest) = manifest.ok_or_else(|| format!("it has no {MANIFEST}"))?;
    let manifest: Manifest =
        serde_json::from_slice(&manifest).map_err(|error| format!("{MANIFEST}: {error}"))?;
    if manifest.schema != SCHEMA {
        return Err(format!("its schema is {:?}; this version reads {SCHEMA:?}", manifest.schema));
    }
    found.remove(MANIFEST);
    let mut differences = differences(&manifest, found);
    if !ends {
        differences.push("bytes follow the last of its files".to_owned());
    }
    Ok(Unpacked { manifest, digest, report, differences })
}

/// Returns true if nothing but zeros is left, with which an archive ends.
fn only_zeros_follow(rest: &mut impl Read) -> io::Result<bool> {
    let mut part = vec![0; PART_BYTES];
    let mut are_zeros = true;
    loop {
        match rest.read(&mut part)? {
            0 => return Ok(are_zeros),
            bytes => are_zeros &= part[..bytes].iter().all(|byte| *byte == 0),
        }
    }
}

/// The path of a file in an archive, if it leads nowhere else.
fn path_of(bytes: &[u8]) -> Result<String, String> {
    let path = std::str::from_utf8(bytes).unwrap_or_default();
    let is_plain = |path: &str| {
        let mut parts = Path::new(path).components();
        let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
        !path.is_empty()
            && path.len() <= PATH_BYTES_MAX
            && !path.contains(char::is_control)
            && parts.all(is_normal)
    };
    match is_plain(path) {
        true => Ok(path.to_owned()),
        false => Err(format!(
            "a file in it has the path {:?}, which leads elsewhere",
            String::from_utf8_lossy(bytes)
        )),
    }
}

/// The files in which an archive and its manifest differ.
fn differences(manifest: &Manifest, mut found: BTreeMap<String, FileEntry>) -> Vec<String> {
    let mut differences = Vec::new();
    for file in &manifest.files {
        match found.remove(&file.path) {
            Some(entry) if entry == *file => {}
            Some(_) => differences.push(format!("{} has changed", plain(&file.path))),
            None => differences.push(format!("{} is missing", plain(&file.path))),
        }
    }
    if !manifest.files.iter().any(|file| file.path == REPORT) {
        differences.push(format!("{REPORT} is not in the manifest"));
    }
    let others = found.into_keys().map(|path| format!("{path} is not in the manifest"));
    differences.extend(others);
    differences
}

/// Tells the user that a run that is stopped at once writes no archive.
pub(crate) fn say_unwritten(args: &OutputArgs) {
    if let Some(path) = &args.bundle {
        say(&format!("the run was stopped at once, so {} was not written", path.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Vec<u8> {
        let files = [(REPORT, "{}"), ("cases/a.yaml", "a: 1\n")];
        let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        packed(&manifest(&files), &files).unwrap()
    }

    fn manifest(files: &[(String, Vec<u8>)]) -> Vec<u8> {
        let files = files.iter().map(|(path, contents)| FileEntry::of(path, contents)).collect();
        let version = "0".to_owned();
        let (programs, missing) = Default::default();
        serde_json::to_vec(&Manifest { schema: SCHEMA.to_owned(), version, programs, files, missing })
            .unwrap()
    }

    /// An archive with one file more, whose header is written byte for byte.
    fn with_file(path: &str, kind: tar::EntryType, bytes: u64) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_ustar();
        header.as_ustar_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_size(bytes);
        header.set_cksum();
        archive.append(&header, &b"abc"[..]).unwrap();
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn an_archive_is_as_its_manifest_has_it() {
        let Unpacked { manifest, report, differences, digest } = unpacked(&archive()[..]).unwrap();
        assert_eq!((manifest.files.len(), report, differences), (2, b"{}".to_vec(), vec![]));
        assert_eq!(digest.len(), 64);
    }

    #[test]
    fn each_difference_is_named() {
        let file = |path: &str, text: &str| (path.to_owned(), text.as_bytes().to_vec());
        let manifest = manifest(&[file(REPORT, "{}"), file("gone", ""), file("kept", "x")]);
        let files = [file(REPORT, "{ }"), file("kept", "x"), file("new", "")];
        let found = unpacked(&packed(&manifest, &files).unwrap()[..]).unwrap();
        assert_eq!(
            found.differences,
            ["report.json has changed", "gone is missing", "new is not in the manifest"]
        );
    }

    #[test]
    fn bytes_behind_the_last_file_are_a_difference() {
        let whole = archive();
        let mut bytes = Vec::new();
        GzDecoder::new(&whole[..]).read_to_end(&mut bytes).unwrap();
        bytes.push(b'x');
        let mut within = GzEncoder::new(Vec::new(), Compression::fast());
        within.write_all(&bytes).unwrap();
        for longer in [[&whole[..], b"x"].concat(), whole.repeat(2), within.finish().unwrap()] {
            assert_eq!(unpacked(&longer[..]).unwrap().differences, ["bytes follow the last of its files"]);
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        for path in ["../a", "/a", "a/../b", "a\u{7}", ""] {
            let problem = unpacked(&with_file(path, tar::EntryType::Regular, 3)[..]).unwrap_err();
            assert!(problem.contains("has the path"), "{path}: {problem}");
        }
        for kind in [tar::EntryType::Symlink, tar::EntryType::GNULongName, tar::EntryType::XHeader] {
            let problem = unpacked(&with_file("a", kind, 3)[..]).unwrap_err();
            assert!(problem.contains("not a regular file"), "{problem}");
        }
    }

    #[test]
    fn a_file_that_claims_to_be_huge_is_refused() {
        for bytes in [FILE_BYTES_MAX + 1, u64::MAX] {
            let problem = unpacked(&with_file("a", tar::EntryType::Regular, bytes)[..]).unwrap_err();
            assert!(problem.contains("bytes") || problem.contains("size"), "{problem}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = archive();
        for at in 0..whole.len() {
            // The header of gzip has a time and a system, which say nothing of the contents.
            let _ = unpacked(&whole[..at]).unwrap_err();
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                let _ = unpacked(&flipped[..]);
            }
        }
        let mut bytes = Vec::new();
        GzDecoder::new(&whole[..]).read_to_end(&mut bytes).unwrap();
        for at in (0..bytes.len()).step_by(3) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0xff;
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(&flipped).unwrap();
            let _ = unpacked(&packed.finish().unwrap()[..]);
        }
    }

    #[test]
    fn a_definition_has_no_secret() {
        let text =
            without_secrets(b"InlineVolumes:\n- Attributes: {adminPassword: hunter2, pool: p}\n").unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("hunter2") && text.contains("\"pool\": \"p\""), "{text}");
    }
}
