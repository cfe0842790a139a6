//! The way to a cluster: a kubeconfig, or what a pod is given.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// Time until a connection to the API server stands.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Which cluster the user means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeSource {
    /// `--kubeconfig`. Without it, what `KUBECONFIG` names, or the file in the home directory, or what a pod is given.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`. Without it, the current one of the file.
    pub context: Option<String>,
}

/// A cluster that can be asked.
#[derive(Clone)]
pub struct Connection {
    /// What sends requests.
    pub client: Client,
    /// The address of its API server.
    pub server: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({:?})", self.server)
    }
}

/// Why there is no way to a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be read, or has no such context.
    #[error("--kubeconfig {}{}", path.display(), named(.context))]
    File {
        /// The file.
        path: PathBuf,
        /// The context asked for.
        context: Option<String>,
        /// What is wrong.
        source: Box<KubeconfigError>,
    },
    /// The file of the environment cannot be read, or has no such context.
    #[error("the kubeconfig of KUBECONFIG or of the home directory{}; --kubeconfig FILE names another", named(.context))]
    Found {
        /// The context asked for.
        context: Option<String>,
        /// What is wrong.
        source: Box<KubeconfigError>,
    },
    /// There is neither a file nor what a pod is given.
    #[error(
        "no kubeconfig was found, and this program does not run in a pod of a cluster; use --kubeconfig FILE"
    )]
    Nowhere(#[source] Box<InClusterError>),
    /// The file is fine, but no client can be made of it.
    #[error("failed to prepare the connection to {server}")]
    Client {
        /// The API server.
        server: String,
        /// What is wrong.
        source: Box<kube::Error>,
    },
}

fn named(context: &Option<String>) -> String {
    context.as_ref().map(|context| format!(", --context {context}")).unwrap_or_default()
}

impl KubeSource {
    /// Prepares the connection. Nothing is asked yet, unless the file has a command for credentials.
    ///
    /// # Errors
    /// No file says where the cluster is, or it is wrong.
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

    /// As kubectl: a file if there is one. Only where there is none, the service account of a pod.
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
