//! The operations of an orchestrator on volumes, for all suites that make sequences of calls: the [operations](operation), their order in the
//! [lifecycle] of a volume, the requests for one [volume] with the ids, contexts and paths that the calls before returned, and the
//! [malformed] versions of each request.

pub mod lifecycle;
pub mod malformed;
pub mod operation;
pub mod volume;
