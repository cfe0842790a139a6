//! The page: whole, harmless, and the same for the same run.

use std::collections::BTreeSet;
use std::time::Duration;

use csi_report::{Detail, Format, Run};
use regex_lite::Regex;

use crate::snapshots::{settled, tell};

/// What a driver may not do to the page, wherever its texts stand.
const HOSTILE: &str = "<script>alert('x')</script>\" onload=\"x\u{202e}\u{0}&amp;";

/// The run without what differs from time to time.
fn still(mut run: Run) -> Run {
    run.duration_ms = 0;
    for check in &mut run.checks {
        check.duration_ms = 0;
        check.calls.iter_mut().for_each(|call| call.sent_after = Duration::ZERO);
        check.calls.iter_mut().for_each(|call| call.duration = Duration::ZERO);
    }
    for calls in &mut run.rpcs {
        (calls.median_us, calls.percentile_95_us, calls.longest_us) = (250, 1_000, 2_000);
    }
    run
}

/// An element, as it begins.
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn get(&self, attribute: &str) -> Option<&str> {
        self.attributes.iter().find(|(name, _)| name == attribute).map(|(_, value)| value.as_str())
    }
}

/// Every element of the page in order.
///
/// # Panics
/// One of them is not closed, or closed out of order, or a `<` is no tag.
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
    let told = tell(Detail::Quiet).await;
    let page = Format::Html.render(&still(told.journal));
    insta::assert_snapshot!("html", settled(&page, &told.socket));
}

#[tokio::test]
async fn whatever_a_driver_says_is_text() {
    let mut run = tell(Detail::Quiet).await.journal;
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
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload="), "it is told");
    assert!(!page.contains(['\u{202e}', '\0']), "what cannot be seen is replaced");
}

#[tokio::test]
async fn nothing_is_loaded_from_elsewhere() {
    let page = Format::Html.render(&tell(Detail::Quiet).await.journal);
    for element in elements(&page) {
        assert!(
            !matches!(element.name.as_str(), "link" | "img" | "iframe" | "base" | "form"),
            "{}",
            element.name
        );
        for (name, value) in &element.attributes {
            assert!(!matches!(name.as_str(), "src" | "srcset" | "style" | "action"), "{name}={value}");
            assert!(name != "href" || value.starts_with('#'), "{value}");
        }
    }
    for loads in ["url(", "@import", "http://", "https://", "fetch(", "innerHTML"] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("default-src &#39;none&#39;"), "a browser would refuse, too");
}

#[tokio::test]
async fn links_lead_somewhere_and_headings_stand_in_order() {
    let found = elements(&Format::Html.render(&tell(Detail::Quiet).await.journal));
    let ids: Vec<&str> = found.iter().filter_map(|element| element.get("id")).collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    for element in &found {
        let links = ["aria-labelledby", "for"].iter().filter_map(|name| element.get(name));
        for id in links.chain(element.get("href").map(|to| &to[1..])) {
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
