//! Finds the parts that Kubernetes ignores without a message: keys that are unknown, repeated or without effect.

use std::collections::BTreeSet;

use crate::capability::Capability;
use crate::definition::DriverDefinition;
use crate::document::{Key, Node, Position, Value};
use crate::schema::{Keys, TOLERATED};

/// A warning about a key.
pub(crate) struct Oddity {
    pub(crate) place: Position,
    pub(crate) message: String,
}

impl Oddity {
    fn new(place: Position, message: impl Into<String>) -> Oddity {
        Oddity { place, message: message.into() }
    }
}

/// Former keys of definitions, with their replacements.
const OBSOLETE: [(&str, &str); 2] =
    [("ShortName", "nothing"), ("ClaimSize", "DriverInfo.SupportedSizeRange")];
/// Names of Kubernetes for similar things, with advice for a definition.
const NAMED_ELSEWHERE: [(&str, &str); 6] = [
    ("VolumeSnapshotClass", "write SnapshotClass"),
    ("VolumeGroupSnapshotClass", "write GroupSnapshotClass"),
    ("RWO", "leave it out, every driver has ReadWriteOnce"),
    ("ROX", "write capReadOnlyMany"),
    ("ReadWriteMany", "write RWX"),
    ("RWOP", "write readWriteOncePod"),
];
/// The only key below which the case of keys does not matter.
const CASELESS: &str = "Timeouts";

/// Further warnings would not help the user.
const ODD_KEYS_MAX: usize = 100;

/// Returns all warnings about a definition, in the order of the file.
pub(crate) fn oddities(text: &str, root: &Node, definition: &DriverDefinition) -> Vec<Oddity> {
    let mut found = unknown_keys(text, root);
    found.extend(ineffective(root, definition));
    found.sort_by_key(|oddity| oddity.place);
    found
}

/// Returns the warnings about single keys and values, in the order of the file: unknown, repeated, or not filled in.
pub(crate) fn unknown_keys(text: &str, root: &Node) -> Vec<Oddity> {
    let mut lint =
        Lint { lines: text.lines().map(|line| line.chars().collect()).collect(), found: Vec::new() };
    lint.value(root, Keys::of_definition(), &mut Vec::new());
    lint.found
}

struct Lint {
    /// The lines as characters, which places count.
    lines: Vec<Vec<char>>,
    found: Vec<Oddity>,
}

impl Lint {
    fn value<'a>(&mut self, node: &'a Node, keys: Keys, path: &mut Vec<&'a str>) {
        match &node.value {
            Value::Map(map) => self.map(map, keys, path),
            Value::List(list) => {
                let Some(keys) = keys.items() else { return };
                list.iter().for_each(|item| self.value(item, keys, path));
            }
            Value::Bool(value) => self.boolean(*value, node.place),
            Value::Text(text) => self.text(text, node.place),
            Value::Null | Value::Integer(_) | Value::Float(_) => {}
        }
    }

    fn map<'a>(&mut self, map: &'a [(Key, Node)], keys: Keys, path: &mut Vec<&'a str>) {
        let mut seen = BTreeSet::new();
        for (key, node) in map {
            if self.found.len() >= ODD_KEYS_MAX {
                return;
            }
            if !seen.insert(key.name.as_str()) {
                let message = format!("{} comes twice; the last one counts", shown(path, &key.name));
                self.found.push(Oddity::new(key.place, message));
            }
            match self.known(key, keys, path) {
                Some(below) => {
                    path.push(&key.name);
                    self.value(node, below, path);
                    path.pop();
                }
                None => self.unknown(key, keys, path),
            }
        }
    }

    /// Returns the keys that may be below a key, if it is known.
    fn known(&self, key: &Key, keys: Keys, path: &[&str]) -> Option<Keys> {
        let caseless = || keys.names().find(|name| name.eq_ignore_ascii_case(&key.name));
        let name = if path == [CASELESS] { caseless().unwrap_or(&key.name) } else { &key.name };
        keys.below(name)
    }

    fn unknown(&mut self, key: &Key, keys: Keys, path: &[&str]) {
        if !keys.are_fixed() || path.is_empty() && TOLERATED.contains(&key.name.as_str()) {
            return;
        }
        let obsolete = OBSOLETE.iter().find(|(name, _)| path.is_empty() && *name == key.name);
        let what = match obsolete {
            Some((_, instead)) => format!("obsolete; {instead} took its place"),
            None => format!("unknown{}", self.guess(key, keys)),
        };
        let message = format!("{} is ignored by Kubernetes: {what}", shown(path, &key.name));
        self.found.push(Oddity::new(key.place, message));
    }

    /// Suggests the intended key.
    fn guess(&self, key: &Key, keys: Keys) -> String {
        if let Some(name) = keys.names().find(|name| name.eq_ignore_ascii_case(&key.name)) {
            return format!("; letter case matters, write {name}");
        }
        if let Some((_, advice)) = NAMED_ELSEWHERE.iter().find(|(name, _)| *name == key.name) {
            return format!("; {advice}");
        }
        let mut ways = Keys::of_definition().ways_to(&key.name);
        // The shortest path is the most likely one; variants have longer names.
        ways.sort_by_key(String::len);
        if !ways.is_empty() {
            return format!("; its place is {}", ways.join(" or "));
        }
        let longer = longer(&key.name, keys.names());
        if !longer.is_empty() {
            return format!("; did you mean {}?", longer.join(", "));
        }
        nearest(&key.name, keys.names()).map_or_else(String::new, |name| format!("; did you mean {name}?"))
    }

    /// Kubernetes fills in no placeholders, but uses the text as a driver's name or a file's path.
    fn text(&mut self, text: &str, place: Position) {
        if let Some(placeholder) = placeholder(text).filter(|_| self.found.len() < ODD_KEYS_MAX) {
            let message =
                format!("{placeholder} is taken as it stands; is this a template that was not filled in?");
            self.found.push(Oddity::new(place, message));
        }
    }

    /// Warns of words that are booleans only in YAML 1.1.
    fn boolean(&mut self, value: bool, place: Position) {
        let index = |count: u64| usize::try_from(count).ok()?.checked_sub(1);
        let line = index(place.line).and_then(|line| self.lines.get(line));
        let rest = line.zip(index(place.column)).and_then(|(line, column)| line.get(column..));
        let word: String = rest.into_iter().flatten().take_while(|c| c.is_ascii_alphabetic()).collect();
        if !word.is_empty() && !word.eq_ignore_ascii_case(&value.to_string()) {
            let message =
                format!("{word} is read as {value}, which not every reader of YAML does; write {value}");
            self.found.push(Oddity::new(place, message));
        }
    }
}

fn shown(path: &[&str], name: &str) -> String {
    path.iter().chain([&name]).copied().collect::<Vec<_>>().join(".")
}

/// Returns a placeholder in a text: `{{ .Name }}`, `${name}`, `{name}`, `$NAME`, `[INSERT NAME]`, `<name>`.
pub(crate) fn placeholder(text: &str) -> Option<&str> {
    /// A longer text is no placeholder, but part of the file.
    const PLACEHOLDER_BYTES_MAX: usize = 80;
    for (open, close) in [("{{", "}}"), ("${", "}"), ("[INSERT", "]"), ("<%", "%>")] {
        if let Some(at) = text.find(open) {
            let end = text[at..].find(close).map_or(text.len(), |end| at + end + close.len());
            return text.get(at..end.min(at + PLACEHOLDER_BYTES_MAX)).or(Some(open));
        }
    }
    let word = |rest: &str| {
        rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte)).count()
    };
    for (at, _) in text.match_indices(['{', '$', '<']) {
        let (open, rest) = text[at..].split_at(1);
        let length = word(rest);
        let begins = rest.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_placeholder = match open {
            // A map in YAML has a colon or is empty.
            "{" => begins && rest[length..].starts_with('}'),
            "<" => begins && rest[length..].starts_with('>'),
            // Variables of a shell have capital letters.
            _ => rest.starts_with(|c: char| c.is_ascii_uppercase()),
        };
        if is_placeholder && length > 0 && length < PLACEHOLDER_BYTES_MAX {
            let close = usize::from(open != "$");
            return text.get(at..at + 1 + length + close);
        }
    }
    None
}

/// Returns the names that contain a key in any case, or none if there are many.
fn longer<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    /// Fewer letters occur in too many names.
    const GIVEN_BYTES_MIN: usize = 4;
    /// More names would not help the user.
    const NAMES_MAX: usize = 4;
    let small = given.to_ascii_lowercase();
    let longer: Vec<&str> = names.filter(|name| name.to_ascii_lowercase().contains(&small)).collect();
    if given.len() < GIVEN_BYTES_MIN || longer.len() > NAMES_MAX { Vec::new() } else { longer }
}

/// Returns warnings about keys of a class that Kubernetes does not know.
pub(crate) fn odd_keys(root: &Node, known: &[&str]) -> Vec<Oddity> {
    let Value::Map(map) = &root.value else { return Vec::new() };
    let unknown = map.iter().map(|(key, _)| key).filter(|key| !known.contains(&key.name.as_str()));
    let odd = |key: &Key| {
        let guess = nearest(&key.name, known.iter().copied())
            .map_or_else(String::new, |name| format!("; did you mean {name}?"));
        Oddity::new(key.place, format!("{} is ignored by Kubernetes: unknown{guess}", key.name))
    };
    unknown.take(ODD_KEYS_MAX).map(odd).collect()
}

/// Returns the name with the smallest edit distance, if that is small.
fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer keys are no misspellings, and the cost of the distance is quadratic.
    const GIVEN_BYTES_MAX: usize = 128;
    if given.len() > GIVEN_BYTES_MAX {
        return None;
    }
    let (distance, best) = names.map(|name| (strsim::levenshtein(given, name), name)).min()?;
    (distance <= given.len().max(best.len()) / 3).then_some(best)
}

/// Returns warnings about known keys without effect, or with a surprising one.
fn ineffective(root: &Node, definition: &DriverDefinition) -> Vec<Oddity> {
    let mut found = Vec::new();
    for class in ["StorageClass", "SnapshotClass", "GroupSnapshotClass", "VolumeAttributesClass"] {
        found.extend(second_sources(root, class));
    }
    for (capability, class, has_class) in [
        (Capability::SnapshotDataSource, "SnapshotClass", definition.snapshot_class.source().is_some()),
        (Capability::GroupSnapshot, "GroupSnapshotClass", definition.group_snapshot_class.source().is_some()),
    ] {
        let place = root.at(&["DriverInfo", "Capabilities", capability.name()]).map(|(key, _)| key.place);
        if let (Some(place), true, false) = (place, definition.can(capability), has_class) {
            let message = format!("{capability} is true, but its tests skip: there is no {class}");
            found.push(Oddity::new(place, message));
        }
    }
    found.extend(empty_stress(root));
    found.extend(missing_metrics(root));
    found
}

/// Warns of a second source of a class, which is ignored.
fn second_sources(root: &Node, class: &str) -> Vec<Oddity> {
    let given = |source: &&str| {
        root.at(&[class, source]).filter(|(_, node)| match &node.value {
            Value::Bool(given) => *given,
            Value::Text(text) => !text.is_empty(),
            _ => false,
        })
    };
    let sources = ["FromName", "FromExistingClassName", "FromFile"];
    let mut sources = sources.iter().filter_map(given).map(|(key, _)| key);
    let Some(first) = sources.next() else { return Vec::new() };
    let unused = |key: &Key| {
        let message = format!("{class}.{} has no effect: {} comes first", key.name, first.name);
        Oddity::new(key.place, message)
    };
    sources.map(unused).collect()
}

/// Warns of a stress test of size 0, which fails instead of skipping; only the newest one skips.
fn empty_stress(root: &Node) -> Vec<Oddity> {
    const FAILS: &str = "with which the test fails; leave out";
    const SKIPS: &str = "with which the test skips, as without";
    let options: [(&str, &[&str], &str); 5] = [
        ("StressTestOptions", &["NumPods", "NumRestarts"], FAILS),
        ("VolumeSnapshotStressTestOptions", &["NumPods", "NumSnapshots"], FAILS),
        ("VolumeModifyStressTestOptions", &["NumPods"], FAILS),
        ("VolumeGroupSnapshotStressTestOptions", &["NumPods", "NumSnapshots"], FAILS),
        ("SnapshotMetadataStressTestOptions", &["NumPods", "NumSnapshotPairs"], SKIPS),
    ];
    let mut found = Vec::new();
    for (name, counts, outcome) in options {
        let Some((key, options)) = root.at(&["DriverInfo", name]) else { continue };
        let Value::Map(_) = options.value else { continue };
        let positive = |count: &str| {
            options.get(count).is_some_and(|(_, node)| matches!(node.value, Value::Integer(1..)))
        };
        for count in counts.iter().filter(|count| !positive(count)) {
            let to_skip = if outcome == FAILS { " to skip it" } else { "" };
            let message = format!("{name}.{count} is 0, {outcome} {name}{to_skip}");
            found.push(Oddity::new(key.place, message));
        }
    }
    found
}

/// Warns of missing limits, without which Kubernetes' performance test crashes.
fn missing_metrics(root: &Node) -> Option<Oddity> {
    let options = ["DriverInfo", "PerformanceTestOptions", "ProvisioningOptions"];
    let (key, node) = root.at(&options).filter(|(_, node)| matches!(node.value, Value::Map(_)))?;
    let message = "ProvisioningOptions has no ExpectedMetrics, without which the test crashes";
    node.get("ExpectedMetrics").is_none().then(|| Oddity::new(key.place, message))
}
