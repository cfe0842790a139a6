//! Turns panics of the database library into errors. The library asserts the form of its files, which a corrupt file
//! violates; the operator should read one line about the file instead of a backtrace.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::path::Path;
use std::sync::Once;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs the work. If it panics, nothing is printed, and the error contains the message and the place.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(install_hook);
    CATCHING.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(false);
    result.map_err(|_| LAST_PANIC.take().unwrap_or_else(|| "it panicked".to_owned()))
}

/// Installs a panic hook that passes the panics of all other threads to the previous hook.
fn install_hook() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if CATCHING.get() {
            LAST_PANIC.set(Some(describe(panic)));
        } else {
            before(panic);
        }
    }));
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map(|place| (Path::new(place.file()).file_name(), place.line()));
    match place {
        Some((Some(file), line)) => {
            format!("{} at {}:{line}", message(panic.payload()), Path::new(file).display())
        }
        _ => message(panic.payload()).to_owned(),
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_message_and_place() {
        assert_eq!(catch(|| 7), Ok(7));
        let reason = catch(|| panic!("page {} is gone", 3)).unwrap_err();
        assert!(reason.starts_with("page 3 is gone at quiet.rs:"), "{reason}");
    }
}
