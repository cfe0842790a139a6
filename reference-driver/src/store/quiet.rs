//! Panics of the database library, turned into errors. It asserts what its files have to look like, and a corrupt
//! file breaks that; the operator shall read one line about the file and no backtrace.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::path::Path;
use std::sync::Once;

thread_local! {
    static LISTENING: Cell<bool> = const { Cell::new(false) };
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs the work; if it panics, the error says with what words and where, and nothing is printed.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(listen);
    LISTENING.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    LISTENING.set(false);
    result.map_err(|_| HEARD.take().unwrap_or_else(|| "it panicked".to_owned()))
}

/// Puts our hook before the one that is there, which still gets the panics of all other threads.
fn listen() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if LISTENING.get() {
            HEARD.set(Some(describe(panic)));
        } else {
            before(panic);
        }
    }));
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map(|place| (Path::new(place.file()).file_name(), place.line()));
    match place {
        Some((Some(file), line)) => {
            format!("{} at {}:{line}", words(panic.payload()), Path::new(file).display())
        }
        _ => words(panic.payload()).to_owned(),
    }
}

fn words(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_words_and_its_place() {
        assert_eq!(catch(|| 7), Ok(7));
        let reason = catch(|| panic!("page {} is gone", 3)).unwrap_err();
        assert!(reason.starts_with("page 3 is gone at quiet.rs:"), "{reason}");
    }
}
