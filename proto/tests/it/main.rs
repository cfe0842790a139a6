//! Tests of the public interface: the compiled protocol against its table of facts, and sockets.

mod dial;
mod facts;
mod plugin;
mod request_log;
mod secrets;
mod serve;
