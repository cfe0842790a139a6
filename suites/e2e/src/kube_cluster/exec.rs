//! Runs commands in containers through a WebSocket with a stream for each output, and one for the result.

use std::time::Duration;

use csi_harness::prelude::Stop;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use super::api::{Server, bounded};
use crate::cluster::{Done, Output};

/// Limits the bytes that are read of a command's output; more is an error.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;

/// Runs a shell script with its arguments in a running container and waits for it.
pub(crate) async fn run(
    server: &Server,
    namespace: &str,
    [pod, container]: [&str; 2],
    script: &str,
    arguments: &[&str],
    limit: Duration,
) -> Done<Output> {
    let api: Api<Pod> = Api::namespaced(server.connection.client.clone(), namespace);
    let broken = |why: String| Stop::broken(format!("a command in pod {pod}: {why}: {script}"));
    let command = async {
        let words = ["sh", "-c", script, "sh"].into_iter().chain(arguments.iter().copied());
        let params = AttachParams::default().container(container).stdin(false).stdout(true).stderr(true);
        let process = bounded(api.exec(pod, words, &params)).await;
        finished(process.map_err(|why| why.to_string())?).await
    };
    match tokio::time::timeout(limit, command).await {
        Ok(ended) => ended.map_err(broken),
        Err(_) => Err(broken(format!("it takes longer than {} s", limit.as_secs()))),
    }
}

/// The input and the output of a script that runs, and the connection, with which it ends.
pub(crate) type Started =
    (Box<dyn AsyncWrite + Send + Unpin>, Box<dyn AsyncRead + Send + Unpin>, Box<dyn Send>);

/// Starts a shell script with its arguments in a running container.
pub(crate) async fn start(
    server: &Server,
    namespace: &str,
    [pod, container]: [&str; 2],
    script: &str,
    arguments: &[String],
) -> Done<Started> {
    let api: Api<Pod> = Api::namespaced(server.connection.client.clone(), namespace);
    let broken = |why: String| Stop::broken(format!("a script in pod {pod}: {why}"));
    let words = ["sh", "-c", script, "sh"].into_iter().chain(arguments.iter().map(String::as_str));
    let params = AttachParams::default().container(container).stdin(true).stdout(true).stderr(false);
    let mut process = bounded(api.exec(pod, words, &params)).await.map_err(|why| broken(why.to_string()))?;
    match (process.stdin(), process.stdout()) {
        (Some(input), Some(output)) => Ok((Box::new(input), Box::new(output), Box::new(process))),
        _ => Err(broken("it has no input and output".to_owned())),
    }
}

async fn finished(mut process: AttachedProcess) -> Result<Output, String> {
    let (stdout, stderr, status) = (process.stdout(), process.stderr(), process.take_status());
    let status = async {
        match status {
            Some(status) => status.await,
            None => None,
        }
    };
    let (stdout, stderr, status) = tokio::join!(all_of(stdout), all_of(stderr), status);
    // This precedes the outputs, because the end of the connection truncates them as well.
    let code = exit_code(status)?;
    Ok(Output { code, stdout: stdout?, stderr: stderr? })
}

async fn all_of(stream: Option<impl AsyncRead + Unpin>) -> Result<String, String> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let read = stream.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut bytes).await;
        read.map_err(|error| format!("what it prints cannot be read: {error}"))?;
    }
    if bytes.len() as u64 > OUTPUT_BYTES_MAX {
        return Err(format!("it prints more than {OUTPUT_BYTES_MAX} bytes"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the exit code in a status, or an error if the command did not run or this is unknown.
fn exit_code(status: Option<Status>) -> Result<i32, String> {
    let status = status.ok_or("the connection ended before the command")?;
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let mut codes = causes.filter(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let code = codes.find_map(|cause| cause.message.as_deref()?.parse().ok());
    let message = [status.reason, status.message].map(Option::unwrap_or_default).join(": ");
    code.ok_or(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(value: serde_json::Value) -> Option<Status> {
        Some(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_status_tells_the_exit_code_or_why_there_is_none() {
        assert_eq!(exit_code(status(json!({ "status": "Success" }))), Ok(0));
        let failed = json!({
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": "command terminated with non-zero exit code",
            "details": { "causes": [{ "reason": "ExitCode", "message": "7" }] },
        });
        assert_eq!(exit_code(status(failed)), Ok(7));
        let refused =
            json!({ "status": "Failure", "reason": "InternalError", "message": "no such container" });
        assert_eq!(exit_code(status(refused)), Err("InternalError: no such container".to_owned()));
        assert!(exit_code(None).is_err());
    }
}
