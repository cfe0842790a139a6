//! A minimal storage back end over TCP, and the driver's client for it. The server stores a list of names; each
//! request and each reply is one line.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tonic::Status;

use super::mistake::Mistake;

/// The time limit for a reply.
const ANSWER_IN: Duration = Duration::from_millis(700);

/// Serves on a local port for as long as the process lives.
///
/// # Errors
/// If it cannot listen.
pub fn serve() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let names = Arc::new(Mutex::new(BTreeSet::new()));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let names = names.clone();
            std::thread::spawn(move || answer_all(client, &names));
        }
    });
    Ok(address)
}

/// Answers `put NAME`, `remove NAME` and `list` with `ok` and the stored names.
fn answer_all(client: TcpStream, names: &Mutex<BTreeSet<String>>) -> std::io::Result<()> {
    let mut answers = client.try_clone()?;
    for request in BufReader::new(client).lines() {
        let request = request?;
        let mut names = names.lock().unwrap();
        match request.split_once(' ') {
            Some(("put", name)) => drop(names.insert(name.to_owned())),
            Some(("remove", name)) => drop(names.remove(name)),
            _ => {}
        }
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let answer = format!("ok {}\n", all.join(" "));
        drop(names);
        answers.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// The driver's client of the server.
#[derive(Debug)]
pub(super) struct Storage {
    address: String,
    mistake: Option<Mistake>,
    connection: Mutex<Option<TcpStream>>,
    was_late: AtomicBool,
}

impl Storage {
    pub(super) fn new(address: String, mistake: Option<Mistake>) -> Storage {
        Storage { address, mistake, connection: Mutex::default(), was_late: AtomicBool::new(false) }
    }

    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Sends a request on the existing connection or on a new one. A connection that fails is closed.
    pub(super) fn ask(&self, request: &str) -> Result<Vec<String>, Status> {
        if self.has(Mistake::NeverForgetsTimeout) && self.was_late.load(Ordering::SeqCst) {
            return Err(Status::unavailable("the storage did not answer before"));
        }
        let kept = self.connection.lock().unwrap().take();
        let connection = match kept {
            Some(connection) => Ok(connection),
            None => self.connect(),
        };
        let mut connection = connection.map_err(|error| self.unreachable(&error))?;
        let answer = exchange(&mut connection, request).and_then(|answer| match answer.strip_suffix('\n') {
            Some(whole) => Ok(whole.to_owned()),
            None if self.has(Mistake::BelievesHalfAnAnswer) => Ok(answer),
            None => Err(std::io::ErrorKind::UnexpectedEof.into()),
        });
        if answer.is_ok() || self.has(Mistake::KeepsDeadConnection) {
            *self.connection.lock().unwrap() = Some(connection);
        }
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        Ok(answer.split_whitespace().skip(1).map(str::to_owned).collect())
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let connection = TcpStream::connect(&self.address)?;
        if !self.has(Mistake::WaitsWithoutLimit) {
            connection.set_read_timeout(Some(ANSWER_IN))?;
        }
        Ok(connection)
    }

    fn unreachable(&self, error: &std::io::Error) -> Status {
        if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) {
            self.was_late.store(true, Ordering::SeqCst);
        }
        Status::unavailable(format!("the storage cannot be reached: {error}"))
    }
}

fn exchange(connection: &mut TcpStream, request: &str) -> std::io::Result<String> {
    connection.write_all(format!("{request}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(connection).read_line(&mut answer)?;
    Ok(answer)
}
