//! Connects to a cluster through a kubeconfig, or the service account of a pod.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// Limits the connect to the API server.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The user's choice of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeSource {
    /// The file of `--kubeconfig`. Without it, that of `KUBECONFIG`, that in the home directory, or the service
    /// account of the pod is used.
    pub kubeconfig: Option<PathBuf>,
    /// The context of `--context`. Without it, the current one of the file is used.
    pub context: Option<String>,
}

/// A connection to a cluster.
#[derive(Clone)]
pub struct Connection {
    /// The client that sends requests.
    pub client: Client,
    pub server: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({:?})", self.server)
    }
}

/// Says why no connection to a cluster is possible.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be read, or lacks the context.
    #[error("--kubeconfig {}{}", path.display(), named(.context))]
    File {
        path: PathBuf,
        /// The requested context.
        context: Option<String>,
        source: Box<KubeconfigError>,
    },
    /// The file of the environment cannot be read, or lacks the context.
    #[error("the kubeconfig of KUBECONFIG or of the home directory{}; --kubeconfig FILE names another", named(.context))]
    Found {
        /// The requested context.
        context: Option<String>,
        source: Box<KubeconfigError>,
    },
    /// There is neither a file nor a pod's service account.
    #[error(
        "no kubeconfig was found, and this program does not run in a pod of a cluster; use --kubeconfig FILE"
    )]
    Nowhere(#[source] Box<InClusterError>),
    /// No client can be made from the file.
    #[error("failed to prepare the connection to {server}")]
    Client { server: String, source: Box<kube::Error> },
}

fn named(context: &Option<String>) -> String {
    context.as_ref().map(|context| format!(", --context {context}")).unwrap_or_default()
}

impl KubeSource {
    /// Prepares the connection. It sends no request yet, but may run a command of the file for credentials.
    ///
    /// # Errors
    /// Fails if no file describes the cluster, or if it is wrong.
    pub async fn connect(&self) -> Result<Connection, ConnectError> {
        let mut config = match &self.kubeconfig {
            Some(path) => self.of_file(path).await?,
            None => self.of_environment().await?,
        };
        config.connect_timeout = Some(CONNECT_LIMIT);
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config);
        let client = client
            .map_err(|source| ConnectError::Client { server: server.clone(), source: Box::new(source) })?;
        Ok(Connection { client, server })
    }

    fn options(&self) -> KubeConfigOptions {
        KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() }
    }

    async fn of_file(&self, path: &Path) -> Result<Config, ConnectError> {
        let config =
            async { Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &self.options()).await };
        config.await.map_err(|source| ConnectError::File {
            path: path.to_owned(),
            context: self.context.clone(),
            source: Box::new(source),
        })
    }

    /// Chooses as kubectl does: a file if there is one, otherwise the service account of a pod.
    async fn of_environment(&self) -> Result<Config, ConnectError> {
        let is_missing = |error: &KubeconfigError| match error {
            KubeconfigError::FindPath => true,
            KubeconfigError::ReadConfig(source, _) => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        };
        match Config::from_kubeconfig(&self.options()).await {
            Ok(config) => Ok(config),
            Err(error) if is_missing(&error) && self.context.is_none() => {
                Config::incluster().map_err(|source| ConnectError::Nowhere(Box::new(source)))
            }
            Err(source) => {
                Err(ConnectError::Found { context: self.context.clone(), source: Box::new(source) })
            }
        }
    }
}
