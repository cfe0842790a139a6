//! The tests run the harness on the mock driver over a socket, and check what it undoes, what it judges, and what it survives.

mod answers;
mod bench;
mod by_hand;
mod death;
mod flaky;
mod harm;
mod in_process;
mod inventory;
mod nodes;
mod one_fault;
mod order;
mod path_commands;
mod paths;
mod process;
mod restarts;
mod scopes;
mod shared_ids;
mod size;
mod streams;
mod undoing;
mod verdicts;
mod volumes;
