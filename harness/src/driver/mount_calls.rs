//! The calls by which a driver mounts file systems, with their options: mount(2), fsconfig(2), and mount programs such as mount(8).
//! They show what a driver asks for, even where the kernel rejects it or a program leaves it out.

use super::other_process::{text_at, texts_at};

/// A call that mounts a file system. Bind mounts and changes of existing mounts are left out, because the kernel ignores their options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountCall {
    /// mount(2), with the options of the file system, separated by commas.
    Mount(String),
    /// fsconfig(2), which sets one option of a file system that is mounted later.
    Option {
        /// The option.
        name: String,
        /// Its value, which the kernel takes as it is.
        value: String,
    },
    /// A program such as mount or mount.nfs, with its arguments.
    Program {
        /// Its name without directories.
        name: String,
        /// The arguments behind the name.
        arguments: Vec<String>,
    },
}

impl MountCall {
    /// The values that the call gives to an option, as the kernel reads them, or the program that is called. In a list of options,
    /// a comma between double quotes belongs to the value, and the quotes do not.
    pub fn values(&self, option: &str) -> Vec<String> {
        match self {
            MountCall::Option { name, value } if name == option => vec![value.clone()],
            MountCall::Option { .. } => Vec::new(),
            MountCall::Mount(data) => values_in(data, option),
            MountCall::Program { arguments, .. } => values_in(&options_of(arguments), option),
        }
    }

    /// Reads a system call with this number and these arguments. `None` if it mounts no file system.
    pub(super) fn read(process: u32, number: libc::c_long, arguments: &[u64; 6]) -> Option<MountCall> {
        /// Sets an option that has a text as its value.
        const SET_STRING: u64 = 1;
        let text = |index: usize| text_at(process, arguments[index]);
        match number {
            libc::SYS_mount => {
                let ignores_options = libc::MS_BIND
                    | libc::MS_REMOUNT
                    | libc::MS_MOVE
                    | libc::MS_SHARED
                    | libc::MS_PRIVATE
                    | libc::MS_SLAVE
                    | libc::MS_UNBINDABLE;
                let mounts = arguments[3] & ignores_options == 0;
                mounts.then(|| MountCall::Mount(text(4).unwrap_or_default()))
            }
            libc::SYS_fsconfig if arguments[1] == SET_STRING => {
                Some(MountCall::Option { name: text(2)?, value: text(3)? })
            }
            libc::SYS_execve => MountCall::of_program(text(0)?, texts_at(process, arguments[1])),
            libc::SYS_execveat => MountCall::of_program(text(1)?, texts_at(process, arguments[2])),
            _ => None,
        }
    }

    fn of_program(path: String, arguments: Vec<String>) -> Option<MountCall> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_mount = name == "mount" || name.starts_with("mount.");
        let arguments: Vec<String> = arguments.into_iter().skip(1).collect();
        let options = options_of(&arguments);
        let ignores_options = ["-B", "--bind", "-R", "--rbind", "-M", "--move"];
        let is_bind = arguments.iter().any(|argument| ignores_options.contains(&argument.as_str()))
            || split(&options).any(|option| matches!(option, "bind" | "rbind" | "move" | "remount"));
        (is_mount && !is_bind).then(|| MountCall::Program { name: name.to_owned(), arguments })
    }
}

/// The options of a mount program, which joins those of several `-o` with commas.
fn options_of(arguments: &[String]) -> String {
    let mut options = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let joined = argument.strip_prefix("--options=");
        let joined = joined.or(argument.strip_prefix("-o").filter(|rest| !rest.is_empty()));
        match (joined, argument.as_str()) {
            (Some(joined), _) => options.push(joined),
            (None, "-o" | "--options") => options.extend(arguments.next().map(String::as_str)),
            (None, _) => {}
        }
    }
    options.join(",")
}

/// Splits at the commas that are not between double quotes.
fn split(options: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    options.split(move |c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    })
}

fn values_in(options: &str, wanted: &str) -> Vec<String> {
    let value = |option: &str| {
        let (name, value) = option.split_once('=')?;
        (name == wanted).then(|| value.replace('"', ""))
    };
    split(options).filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: &str = "system_u:object_r:container_file_t:s0:c0,c1";

    fn program(arguments: &[&str]) -> Option<MountCall> {
        let arguments = ["mount"].iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
        MountCall::of_program("/usr/bin/mount".to_owned(), arguments)
    }

    #[test]
    fn a_comma_between_quotes_belongs_to_the_value() {
        let quoted = format!("context=\"{CONTEXT}\"");
        let read = |call: MountCall| call.values("context");
        assert_eq!(read(MountCall::Mount(format!("noatime,{quoted},discard"))), [CONTEXT]);
        assert_eq!(read(program(&["-o", "ro", "-o", &quoted, "/dev/x", "/mnt"]).unwrap()), [CONTEXT]);
        assert_eq!(read(program(&[&format!("-onoatime,{quoted}")]).unwrap()), [CONTEXT]);
        assert_eq!(read(program(&[&format!("--options={quoted}")]).unwrap()), [CONTEXT]);
        let option = |value: &str| MountCall::Option { name: "context".to_owned(), value: value.to_owned() };
        assert_eq!(read(option(CONTEXT)), [CONTEXT]);
    }

    #[test]
    fn a_split_or_twice_quoted_context_is_another_one() {
        let wrong = [
            format!("context={CONTEXT}"),
            format!("context=\"\"{CONTEXT}\"\""),
            format!("context='{CONTEXT}'"),
            format!("context=\\\"{CONTEXT}\\\""),
            "context=\"system_u:object_r:container_file_t:s0:c0".to_owned(),
        ];
        for options in wrong {
            let calls = [MountCall::Mount(options.clone()), program(&["-o", &options]).unwrap()];
            for call in calls {
                let values = call.values("context");
                assert!(values.len() == 1 && values[0] != CONTEXT, "{options}: {values:?}");
            }
        }
        let quoted = MountCall::Option { name: "context".to_owned(), value: format!("\"{CONTEXT}\"") };
        assert_ne!(quoted.values("context"), [CONTEXT], "fsconfig removes no quotes");
    }

    #[test]
    fn bind_mounts_and_other_programs_are_left_out() {
        for arguments in
            [&["--bind", "/a", "/b"][..], &["-o", "remount,ro", "/b"], &["-o", "bind,ro", "/a", "/b"]]
        {
            assert_eq!(program(arguments), None, "{arguments:?}");
        }
        let umount = MountCall::of_program("/bin/umount".to_owned(), vec!["umount".to_owned()]);
        assert_eq!(umount, None);
        assert!(MountCall::of_program("mount.nfs".to_owned(), Vec::new()).is_some());
    }
}
