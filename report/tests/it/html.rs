//! The page is complete, harmless, and equal for equal runs.

use std::collections::BTreeSet;
use std::time::Duration;

use csi_report::{Detail, Format, Run, compare_each, history_page};
use regex_lite::Regex;

use crate::snapshots::{play, settled};

/// Links may lead only to this address outside of the page, and only if the reader follows them.
const SPECIFICATION: &str = "https://github.com/container-storage-interface/spec/blob/v1.12.0/spec.md";
const SPECIFICATION_1_13: &str = "https://github.com/container-storage-interface/spec/blob/v1.13.0/spec.md";

/// A driver may return this text anywhere, and it must not have an effect on the page.
const HOSTILE: &str = "<script>alert('x')</script>\" onload=\"x\u{202e}\u{0}&amp;";

/// Sets the times of the run to fixed values.
fn still(mut run: Run) -> Run {
    run.duration_ms = 0;
    for check in &mut run.checks {
        check.duration_ms = 0;
        check.calls.iter_mut().for_each(|call| call.sent_after = Duration::ZERO);
        check.calls.iter_mut().for_each(|call| call.duration = Duration::ZERO);
    }
    for calls in &mut run.rpcs {
        (calls.median_us, calls.percentile_95_us, calls.longest_us) = (250, 1_000, 2_000);
        calls.percentile_99_us = Some(1_500);
    }
    run
}

/// This is the start tag of an element.
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn get(&self, attribute: &str) -> Option<&str> {
        self.attributes.iter().find(|(name, _)| name == attribute).map(|(_, value)| value.as_str())
    }
}

/// Returns all elements of the page in order.
///
/// # Panics
/// Panics if an element is not closed, or is closed out of order, or if a `<` does not begin a tag.
fn elements(page: &str) -> Vec<Element> {
    let tag = Regex::new(r#"^<(/?)([a-zA-Z0-9]+)((?: [a-zA-Z0-9-]+="[^"<>]*")*)>"#).unwrap();
    let attribute = Regex::new(r#" ([a-zA-Z0-9-]+)="([^"]*)""#).unwrap();
    let mut rest = page.strip_prefix("<!doctype html>\n").unwrap();
    let (mut open, mut found) = (Vec::new(), Vec::new());
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "a stray > in {:?}", &rest[..at]);
        let parts = tag.captures(&rest[at..]).unwrap_or_else(|| {
            panic!("no tag: {}", rest[at..].chars().take(100).collect::<String>());
        });
        let name = parts[2].to_owned();
        rest = &rest[at + parts[0].len()..];
        if &parts[1] == "/" {
            assert_eq!(open.pop().as_ref(), Some(&name), "closed out of order");
            continue;
        }
        if matches!(name.as_str(), "style" | "script") {
            rest = &rest[rest.find(&format!("</{name}>")).unwrap()..];
        }
        if !matches!(name.as_str(), "br" | "input" | "meta") {
            open.push(name.clone());
        }
        let attributes = attribute.captures_iter(&parts[3]);
        let attributes = attributes.map(|pair| (pair[1].to_owned(), pair[2].to_owned())).collect();
        found.push(Element { name, attributes });
    }
    assert_eq!(open, Vec::<String>::new(), "not closed");
    found
}

#[tokio::test]
async fn the_page_of_a_run() {
    let played = play(Detail::Quiet).await;
    let page = Format::Html.render(&still(played.journal));
    insta::assert_snapshot!("html", settled(&without_idle_rows(&page), &played.socket));
}

/// Returns the page without the requirements about which the run says nothing.
fn without_idle_rows(page: &str) -> String {
    let row = Regex::new(r#"<tr id="[A-Z0-9-]+" class="dim none">.*?</tr>\n"#).unwrap();
    let page = row.replace_all(page, "");
    let section = Regex::new(r#"<tbody data-of="[^"]*"><tr class="group">.*?</tr>\n</tbody>\n"#).unwrap();
    section.replace_all(&page, "").into_owned()
}

#[tokio::test]
async fn each_requirement_has_a_row() {
    let run = play(Detail::Quiet).await.journal;
    let page = Format::Html.render(&run);
    let row = |id: &str| {
        let from = page.find(&format!("<tr id=\"{id}\"")).unwrap();
        page[from..].split("</tr>").next().unwrap()
    };
    let broken = row("ID-PROBE-001");
    assert!(broken.contains("class=\"s\">broken<") && broken.contains("identity/probe/answers"), "{broken}");
    assert!(row("ID-INFO-001").contains("class=\"s\">kept<"), "{}", row("ID-INFO-001"));
    assert!(row("CTRL-LISTVOL-007").contains("class=\"s\">skipped<"), "{}", row("CTRL-LISTVOL-007"));
    assert!(row("CTRL-EXPAND-001").contains("class=\"s\">not run<"), "{}", row("CTRL-EXPAND-001"));
    let link = format!("href=\"{SPECIFICATION}#nodestagevolume\"");
    assert!(page.contains(&link), "the section of the specification");
}

#[tokio::test]
async fn the_accused_call_of_a_failure_is_marked() {
    let page = Format::Html.render(&play(Detail::Quiet).await.journal);
    let from = page.find("id=\"check-identity.probe.answers\"").unwrap();
    let article = page[from..].split("</article>").next().unwrap();
    assert_eq!(article.matches("class=\"call here\"").count(), 1, "{article}");
    assert!(article.contains("INTERNAL"), "{article}");
}

/// Writes several runs, and reads them again as `compare` does.
async fn stored(versions: &[&str]) -> Vec<Run> {
    let mut run = play(Detail::Quiet).await.journal;
    let mut read = |version: &&str| {
        run.target.vendor_version = (*version).to_owned();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, Format::Json.render(&run)).unwrap();
        Run::load(file.path()).unwrap()
    };
    versions.iter().map(&mut read).collect()
}

#[tokio::test]
async fn several_runs_have_a_page_with_a_column_each() {
    let mut runs = stored(&["v1", "v2", HOSTILE]).await;
    runs[2].checks.retain(|check| check.id != "identity/probe/answers");
    let page = history_page(&runs, &compare_each(&runs, None), "0.0.0");
    let found = elements(&page);
    assert_eq!(found.iter().filter(|element| element.name == "script").count(), 1);
    let columns = found.iter().filter(|element| element.get("scope") == Some("col")).count();
    assert_eq!(columns, 2 * (1 + runs.len()), "of the areas, and of the checks that failed");
    assert!(page.contains("gone: 1") && page.contains("not there"), "{page}");
    assert!(page.contains("&lt;script&gt;") && !page.contains(['\u{202e}', '\0']));
}

#[tokio::test]
async fn whatever_a_driver_says_is_text() {
    let mut run = play(Detail::Quiet).await.journal;
    let plain = elements(&Format::Html.render(&run));
    let texts =
        [&mut run.target.name, &mut run.target.vendor_version, &mut run.target.endpoint, &mut run.command];
    texts.into_iter().for_each(|text| *text = HOSTILE.to_owned());
    run.remarks.push(HOSTILE.to_owned());
    run.leaks.iter_mut().for_each(|leak| leak.id = HOSTILE.to_owned());
    run.crashes.iter_mut().for_each(|crash| crash.under_way = vec![HOSTILE.to_owned()]);
    for check in &mut run.checks {
        let texts = [&mut check.message, &mut check.expected, &mut check.actual, &mut check.repeat];
        texts.into_iter().for_each(|text| *text = HOSTILE.to_owned());
        check.notes = vec![HOSTILE.to_owned()];
        check.driver_printed = vec![HOSTILE.to_owned()];
        check.left_behind = vec![HOSTILE.to_owned()];
        check.known_because = check.known_because.as_ref().map(|_| HOSTILE.to_owned());
    }
    let page = Format::Html.render(&run);
    let found = elements(&page);
    let scripts = |elements: &[Element]| elements.iter().filter(|element| element.name == "script").count();
    assert_eq!((scripts(&found), scripts(&plain)), (1, 1));
    assert!(found.iter().all(|element| element.attributes.iter().all(|(name, _)| !name.starts_with("on"))));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload="), "it is played");
    assert!(!page.contains(['\u{202e}', '\0']), "what cannot be seen is replaced");
}

#[tokio::test]
async fn nothing_is_loaded_from_elsewhere() {
    let page = Format::Html.render(&play(Detail::Quiet).await.journal);
    for element in elements(&page) {
        assert!(
            !matches!(element.name.as_str(), "link" | "img" | "iframe" | "base" | "form"),
            "{}",
            element.name
        );
        for (name, value) in &element.attributes {
            assert!(!matches!(name.as_str(), "src" | "srcset" | "style" | "action"), "{name}={value}");
            let is_known = [SPECIFICATION, SPECIFICATION_1_13].iter().any(|text| value.starts_with(text));
            assert!(name != "href" || value.starts_with('#') || is_known, "{value}");
        }
    }
    let page = page.replace(SPECIFICATION, "").replace(SPECIFICATION_1_13, "");
    for loads in ["url(", "@import", "http://", "https://", "fetch(", "innerHTML"] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("default-src &#39;none&#39;"), "a browser would reject, too");
}

#[tokio::test]
async fn links_lead_somewhere_and_headings_stand_in_order() {
    let found = elements(&Format::Html.render(&play(Detail::Quiet).await.journal));
    let ids: Vec<&str> = found.iter().filter_map(|element| element.get("id")).collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    for element in &found {
        let links = ["aria-labelledby", "for"].iter().filter_map(|name| element.get(name));
        let here = element.get("href").and_then(|to| to.strip_prefix('#'));
        for id in links.chain(here) {
            assert!(unique.contains(id), "nothing has the id {id}");
        }
        assert!(
            element.name != "svg"
                || element.get("aria-label").is_some()
                || element.get("aria-hidden").is_some()
        );
        assert!(element.name != "th" || element.get("scope").is_some());
    }
    let level = |element: &Element| element.name.strip_prefix('h')?.parse::<u8>().ok();
    let levels: Vec<u8> = found.iter().filter_map(level).collect();
    assert_eq!(levels[0], 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1 && pair[1] > 1), "{levels:?}");
}
