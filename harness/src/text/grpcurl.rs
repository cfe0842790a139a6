//! Calls as commands of grpcurl, which needs csi.proto of the specification in the working directory.

use csi_proto::hidden::STRIPPED;
use csi_proto::{Endpoint, Rpc};
use serde_json::Value;

use crate::text::encoding::shell_word;

/// The beginning of the command for a driver that listens at a Unix socket. Without an authority grpcurl sends the path as one, which
/// servers reject that are strict about HTTP/2.
pub const AT_SOCKET: &str = "grpcurl -plaintext -unix -authority localhost -proto csi.proto";
/// The beginning of the command for a driver that listens at a TCP port.
pub const AT_PORT: &str = "grpcurl -plaintext -proto csi.proto";

/// The beginning of the names of variables that stand for secrets.
pub const SECRET_VARIABLE: &str = "SECRET_";

/// The command that makes one call. A secret is taken from a variable, since the request does not have it; `None` if something else was
/// left out of the request.
pub fn command(rpc: Rpc, request: &Value, endpoint: &Endpoint) -> Option<String> {
    let (program, address) = match endpoint {
        Endpoint::Unix(path) => {
            let path = std::path::absolute(path).ok()?;
            (AT_SOCKET, shell_word(path.to_str()?))
        }
        Endpoint::Tcp { .. } => (AT_PORT, shell_word(endpoint.to_string().trim_start_matches("tcp://"))),
    };
    let request = quoted(request, &|_, _| None);
    let method = rpc.path.trim_start_matches('/');
    (!request.contains(STRIPPED)).then(|| format!("{program} -d {request} {address} {method}"))
}

/// A message as one word of a shell. `variable` returns the expansion of a field that differs in each run, by the name
/// of the field and its value in the message.
pub fn quoted(message: &Value, variable: &dyn Fn(&str, &str) -> Option<String>) -> String {
    let mut text = String::from("'");
    write_json("", message, variable, &mut text);
    text.push('\'');
    text
}

fn write_json(
    field: &str,
    value: &Value,
    variable: &dyn Fn(&str, &str) -> Option<String>,
    text: &mut String,
) {
    let quoted = |value: &str| Value::from(value).to_string().replace('\'', r"'\''");
    match value {
        Value::String(string) => {
            let expansion = if string == STRIPPED { Some(secret(field)) } else { variable(field, string) };
            match expansion {
                Some(expansion) => text.push_str(&format!("\"'\"{expansion}\"'\"")),
                None => text.push_str(&quoted(string)),
            }
        }
        Value::Array(values) => {
            text.push('[');
            for (nth, value) in values.iter().enumerate() {
                text.push_str(if nth > 0 { "," } else { "" });
                write_json(field, value, variable, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (nth, (field, value)) in fields.iter().enumerate() {
                text.push_str(if nth > 0 { "," } else { "" });
                text.push_str(&format!("{}:", quoted(field)));
                write_json(field, value, variable, text);
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

/// The expansion for a secret of this name. The shell refuses the command while the variable is empty.
fn secret(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("${{{SECRET_VARIABLE}{}:?}}", name.chars().map(letter).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use csi_proto::{Call as _, v1};
    use serde_json::json;

    use super::*;

    const RPC: Rpc = v1::CreateVolumeRequest::RPC;

    fn socket() -> Endpoint {
        Endpoint::Unix(PathBuf::from("/run/my csi.sock"))
    }

    /// The arguments that a shell gives to grpcurl.
    fn arguments(command: &str, secret: Option<&str>) -> Option<Vec<String>> {
        let script = format!("grpcurl() {{ printf '%s\\n' \"$@\"; }}; {command}");
        let variable = secret.map(|secret| ("SECRET_ADMIN_KEY", secret));
        let output = Command::new("sh").args(["-c", &script]).envs(variable).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then(|| text.lines().map(str::to_owned).collect())
    }

    #[test]
    fn a_shell_makes_the_call_with_the_request_as_it_was() {
        let request = json!({"name": "it's $HOME `x` \"y\"\n", "capacity_range": {"required_bytes": -1}, "list": [1, "a", null]});
        let command = command(RPC, &request, &socket()).unwrap();
        assert!(command.starts_with(AT_SOCKET), "{command}");
        let arguments = arguments(&command, None).unwrap();
        let [.., flag, sent, address, method] = &arguments[..] else { panic!("{arguments:?}") };
        assert_eq!(serde_json::from_str::<Value>(sent).unwrap(), request);
        assert_eq!(
            (flag.as_str(), address.as_str(), method.as_str()),
            ("-d", "/run/my csi.sock", "csi.v1.Controller/CreateVolume")
        );
    }

    #[test]
    fn a_port_is_dialled_without_the_scheme() {
        let endpoint = Endpoint::Tcp { host: "::1".to_owned(), port: 9 };
        let command = command(RPC, &json!({}), &endpoint).unwrap();
        assert_eq!(
            command,
            "grpcurl -plaintext -proto csi.proto -d '{}' '[::1]:9' csi.v1.Controller/CreateVolume"
        );
    }

    #[test]
    fn a_secret_comes_from_a_variable_and_is_needed() {
        let command = command(RPC, &json!({"secrets": {"admin.key": STRIPPED}}), &socket()).unwrap();
        assert!(command.contains("\"'\"${SECRET_ADMIN_KEY:?}\"'\""), "{command}");
        assert_eq!(arguments(&command, None), None, "the variable is empty");
        let sent = arguments(&command, Some("a b")).unwrap();
        assert!(sent.contains(&"{\"secrets\":{\"admin.key\":\"a b\"}}".to_owned()), "{sent:?}");
    }

    #[test]
    fn a_request_without_more_than_secrets_has_no_command() {
        let named = json!({ "name": format!("a {STRIPPED}") });
        assert_eq!(command(RPC, &named, &socket()), None);
    }

    #[test]
    fn ids_come_from_variables() {
        let variable =
            |field: &str, text: &str| (field == "volume_id" && text == "v").then(|| "$id1".to_owned());
        let text = quoted(&json!({"name": "v", "volume_id": "v"}), &variable);
        assert_eq!(text, "'{\"name\":\"v\",\"volume_id\":\"'\"$id1\"'\"}'");
    }
}
