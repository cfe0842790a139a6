//! The program as a user meets it: arguments, output, exit codes.
#![expect(clippy::unwrap_used, reason = "a panic in a helper of a test is the failure itself")]

mod bundle;
mod ci_files;
mod cleanup;
mod cluster;
mod config_file;
mod copied;
mod doctor;
mod driver;
mod driver_command;
mod e2e_definitions;
mod e2e_kube;
mod e2e_plan;
mod exit_codes;
mod exported;
mod exported_go;
mod faults;
mod faulty_driver;
mod fuzz;
mod gate;
mod init;
mod install;
mod interrupt;
mod load;
mod moments;
mod output;
mod peers;
mod preflight;
mod program;
mod replay;
mod reports;
mod shards;
mod stored;
mod transcripts;
mod with_sanity;
mod workflow;
