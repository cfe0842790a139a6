//! Checks that the search for an order of concurrent calls agrees with one that tries every order.

use std::time::Duration;

use csi_model::Span;
use csi_model::answer::{Answer, Response};
use csi_model::call::{Call, List};
use csi_model::call_context::DriverProfile;
use csi_model::history::{Entry, History, Outcome, Parts, Treatment, check, search};
use csi_model::names::Name;
use csi_model::state_set::STEPS_MAX;
use csi_test_support::histories::plain::has_order;
use csi_test_support::histories::story::{
    self, GIB, N1, N2, T1, attach, create, delete, detach, expand, look_up, ok, publish, stage, unpublish,
    unstage, wanted,
};
use csi_test_support::histories::toy::Toy;
use tonic::Code;

use crate::{CANARY, Target};

/// Each four bytes are a call: its kind, start, duration and answer.
pub const TARGET: Target = Target { name: "history", run, seeds, tokens: &[] };

const CALL_BYTES: usize = 4;
const CALLS_MAX: usize = 8;
/// The plain search gives up after this number of steps, because some histories have too many orders.
const PLAIN_STEPS_MAX: u64 = 20_000;
/// The time for which lists may show a deleted volume.
const SETTLE: Duration = Duration::from_millis(3);

/// A call without an answer so far.
struct Pending {
    call: Call,
    span: Span,
    done: Duration,
    answered: u8,
}

fn run(bytes: &[u8]) {
    let history = history(bytes);
    let volumes = Parts::of(&history).volumes;
    let Some(plain) = has_order(&volumes, PLAIN_STEPS_MAX) else { return };
    let mut found = true;
    for parts in volumes.values() {
        // The canary ignores the answer of the fourth call.
        let treat = |place| if CANARY && place == 3 { Treatment::Relaxed } else { Treatment::Kept };
        match search(parts, treat, &mut { STEPS_MAX }) {
            Outcome::Ordered(_) => {}
            Outcome::Unordered { .. } => found = false,
            Outcome::Undecided(_) | Outcome::Known(_) => return,
        }
    }
    assert_eq!(found, plain, "{history:#?}");
    assert_eq!(check(&history).calls, history.entries.len());
}

/// Returns the history of calls on the toy driver, in which some answers are replaced.
fn history(bytes: &[u8]) -> History {
    let mut begun = Duration::ZERO;
    let mut pending: Vec<Pending> =
        bytes.chunks_exact(CALL_BYTES).take(CALLS_MAX).map(|bytes| ask(bytes, &mut begun)).collect();
    pending.sort_by_key(|pending| pending.done);
    let mut toy = Toy::default();
    let entry = |(worker, Pending { call, span, answered, .. })| {
        let answer = answer(&mut toy, &call, answered);
        Entry { worker, call, answer, span }
    };
    let entries = (0..).zip(pending).map(entry).collect();
    History { profile: DriverProfile { settle: SETTLE, ..story::profile() }, entries }
}

fn ask(bytes: &[u8], begun: &mut Duration) -> Pending {
    let [what, when, length, answered] = [bytes[0], bytes[1], bytes[2], bytes[3]];
    *begun += Duration::from_millis(u64::from(when % 16));
    let length_ms = 1 + u64::from(length % 32);
    let returned = *begun + Duration::from_millis(length_ms);
    let done = *begun + Duration::from_millis(length_ms * u64::from(length / 32) / 8);
    Pending { call: call(what), span: Span { invoked: *begun, returned }, done, answered }
}

fn call(what: u8) -> Call {
    let volume = Name::volume(u16::from(what >> 7)).id(u16::from((what >> 6) & 1));
    match what % 16 {
        0..=2 => create(volume, wanted()),
        3..=4 => delete(volume),
        5..=6 => attach(volume, N1),
        7 => attach(volume, N2),
        8 => detach(volume, N1),
        9 => stage(volume, N1),
        10 => unstage(volume, N1),
        11 => publish(volume, N1, T1),
        12 => unpublish(volume, N1, T1),
        13 => expand(volume, 2 * GIB),
        14 => look_up(volume),
        _ => return Call::List(List::Volumes),
    }
    .into()
}

fn answer(toy: &mut Toy, call: &Call, answered: u8) -> Answer<Response> {
    let answer = match answered % 32 {
        // The call had no effect, or its caller does not know.
        0 => return Answer::Unknown,
        1 => return Answer::Refused(Code::Aborted),
        _ => toy.call(call),
    };
    match answered % 32 {
        2 => Answer::Unknown,
        3 => Answer::Refused(Code::NotFound),
        4 => Answer::Refused(Code::FailedPrecondition),
        5 => Answer::Refused(Code::AlreadyExists),
        6 if matches!((&answer, call), (Answer::Refused(_), Call::Volume(call)) if call.subject().id().is_some()) => {
            ok()
        }
        _ => answer,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let one_after_another = [
        [0, 0, 1, 9],
        [5, 9, 1, 9],
        [9, 9, 1, 9],
        [11, 9, 1, 9],
        [12, 9, 1, 9],
        [10, 9, 1, 9],
        [8, 9, 1, 9],
        [3, 9, 1, 9],
    ];
    let at_once =
        [[0, 0, 9, 9], [0, 1, 40, 9], [128, 1, 70, 9], [15, 1, 99, 9], [3, 9, 20, 2], [14, 1, 60, 9]];
    vec![one_after_another.concat(), at_once.concat()]
}
