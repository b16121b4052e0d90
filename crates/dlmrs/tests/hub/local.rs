//! A hub of a few files on this machine. hf-hub takes server and cache from the environment, so each use of it is a process of its own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use dlmrs::Folder;
use dlmrs::checkpoint::{ModelConfig, Weights, data_file};
use serde_json::{Value, json};

const NAME: &str = "some-org/some-model";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Set for the process that a test starts.
const CHILD: &str = "DLMRS_TEST_HUB_CHILD";

/// Set besides, to the file of a data set that it is to open instead of a model.
const DATA: &str = "DLMRS_TEST_HUB_DATA";

/// What the other tests run in a process of its own: opens the repository and its weights, and says where they are. By itself it has
/// nothing to do.
#[test]
fn open_in_a_process_of_its_own() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    if let Some(file) = std::env::var_os(DATA) {
        let path = data_file(file.to_str().unwrap());
        println!("\nanswer: {}", path.map_or_else(|error| error.to_string(), |path| path.display().to_string()));
        return;
    }
    let result = Folder::open(NAME).and_then(|folder| {
        let weights = Weights::open(&folder, &ModelConfig::read(&folder)?)?;
        Ok(format!("{} {} {}", folder.name(), weights.files().len(), folder.path().display()))
    });
    println!("\nanswer: {}", result.unwrap_or_else(|error| error.to_string()));
}

fn open(endpoint: &str, home: &Path) -> String {
    answer_of(endpoint, home, None)
}

/// What the process says of the model, or of a file of a data set.
fn answer_of(endpoint: &str, home: &Path, data: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "local::open_in_a_process_of_its_own", "--nocapture"]);
    for proxy in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    if let Some(file) = data {
        command.env(DATA, file);
    }
    let output = command.env(CHILD, "1").env("HF_ENDPOINT", endpoint).env("HF_HOME", home).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("answer: ")).unwrap_or_else(|| panic!("no answer in {text}")).to_string()
}

/// What the server does to the weights.
#[derive(Clone, Copy)]
enum Fault {
    None,
    /// Announces all of the file and closes the connection after so many bytes of it.
    Cut(usize),
    /// The same, but without having said how much would come.
    CutUnannounced(usize),
    /// Sends them in pieces, slowly.
    Slow,
}

/// A server that lives as long as the process.
struct Server {
    address: String,
    fault: Mutex<Fault>,
    /// Where the requests for the weights began.
    starts: Mutex<Vec<usize>>,
    folder: PathBuf,
}

/// Serves the files of a folder as the hub would.
fn serve(folder: PathBuf) -> String {
    serve_with(folder, Fault::None).address.clone()
}

fn serve_with(folder: PathBuf, fault: Fault) -> Arc<Server> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = Arc::new(Server { address, fault: fault.into(), starts: Mutex::default(), folder });
    let serving = server.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let server = serving.clone();
            thread::spawn(move || answer(stream.unwrap(), &server));
        }
    });
    server
}

fn answer(mut stream: TcpStream, server: &Server) {
    let folder = &server.folder;
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap).take_while(|line| !line.is_empty());
    let Some(request) = lines.next() else { return };
    let range = lines.find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_string));
    let path = request.split(' ').nth(1).unwrap();
    let mut fault = Fault::None;
    let file = path.strip_prefix(&format!("/{NAME}/resolve/{COMMIT}/"));
    let (status, headers, body) = match file.or_else(|| path.strip_prefix(&format!("/datasets/{NAME}/resolve/main/"))) {
        None if path.starts_with(&format!("/api/models/{NAME}")) => {
            let files: Vec<Value> =
                fs::read_dir(folder).unwrap().map(|file| json!({"rfilename": file.unwrap().file_name().to_str().unwrap()})).collect();
            ("200 OK", String::new(), json!({"siblings": files, "sha": COMMIT}).to_string().into_bytes())
        }
        Some(name) if folder.join(name).is_file() => {
            let all = fs::read(folder.join(name)).unwrap();
            let (from, to) = range.as_deref().and_then(|range| range.split_once('-')).unwrap();
            // The question how long a file is asks for its first byte.
            if name.ends_with("safetensors") && to.is_empty() {
                fault = *server.fault.lock().unwrap();
                server.starts.lock().unwrap().push(from.parse().unwrap());
            }
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap_or(all.len() - 1));
            let headers = format!("ETag: \"{name}\"\r\nX-Repo-Commit: {COMMIT}\r\nContent-Range: bytes {from}-{to}/{}\r\n", all.len());
            ("206 Partial Content", headers, all[from..=to].to_vec())
        }
        _ => ("404 Not Found", String::new(), Vec::new()),
    };
    let length = format!("Content-Length: {}\r\n", body.len());
    let (length, body, piece, pause) = match fault {
        Fault::None => (length.as_str(), body.as_slice(), body.len(), Duration::ZERO),
        Fault::Cut(after) => (length.as_str(), &body[..after], after, Duration::ZERO),
        Fault::CutUnannounced(after) => ("", &body[..after], after, Duration::ZERO),
        Fault::Slow => (length.as_str(), body.as_slice(), body.len() / 8, Duration::from_millis(100)),
    };
    // The client may have gone away; then nobody waits for the answer.
    let _ = stream.write_all(format!("HTTP/1.1 {status}\r\n{headers}{length}Connection: close\r\n\r\n").as_bytes());
    for piece in body.chunks(piece.max(1)) {
        let _ = stream.write_all(piece);
        thread::sleep(pause);
    }
}

fn golden(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(family)
}

/// Config and weights of a golden checkpoint, as one file or as one shard with an index, among files that nobody needs.
fn repository(sharded: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(golden("sdar").join("config.json"), folder.path().join("config.json")).unwrap();
    fs::write(folder.path().join("README.md"), "a card").unwrap();
    fs::write(folder.path().join("generation_config.json"), r#"{"eos_token_id": 318}"#).unwrap();
    let shard = if sharded { "model-00001-of-00001.safetensors" } else { "model.safetensors" };
    fs::copy(golden("sdar").join("model.safetensors"), folder.path().join(shard)).unwrap();
    if sharded {
        let bytes = fs::read(folder.path().join(shard)).unwrap();
        let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        let map: Value = header.tensors().into_keys().map(|name| (name, Value::from(shard))).collect::<serde_json::Map<_, _>>().into();
        fs::write(folder.path().join("model.safetensors.index.json"), json!({"weight_map": map}).to_string()).unwrap();
    }
    folder
}

#[test]
fn an_unreachable_hub_is_an_error_that_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let message = open(NOWHERE, home.path());
    // The system's own reason is among them, in whatever words.
    for part in [NAME, "cannot download", "request error", "network", "path of a folder"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_repository_that_is_not_there() {
    let (home, repository) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let message = open(&serve(repository.path().to_path_buf()), home.path());
    assert!(message.contains("config.json not found at some-org/some-model"), "{message}");
    let message = open(&format!("{}/elsewhere", serve(repository.path().to_path_buf())), home.path());
    assert!(message.contains("cannot download") && message.contains("404"), "{message}");
}

#[test]
fn downloads_what_is_needed_and_then_needs_no_network() {
    for sharded in [false, true] {
        let (home, repository) = (tempfile::tempdir().unwrap(), repository(sharded));
        let first = open(&serve(repository.path().to_path_buf()), home.path());
        assert!(first.starts_with("some-model 1 "), "{first}");
        let folder = Path::new(first.rsplit(' ').next().unwrap());
        assert!(folder.starts_with(home.path()) && folder.join("generation_config.json").is_file());
        assert!(!folder.join("README.md").exists(), "a file that nobody needs");
        assert_eq!(open(NOWHERE, home.path()), first);
        // Without its weights a cached repository is not complete.
        let weights = if sharded { "model-00001-of-00001.safetensors" } else { "model.safetensors" };
        fs::remove_file(folder.join(weights)).unwrap();
        assert!(open(NOWHERE, home.path()).contains("cannot download"));
        assert_eq!(open(&serve(repository.path().to_path_buf()), home.path()), first);
    }
}

#[test]
fn a_file_of_a_data_set() {
    let (home, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(data.path().join("main")).unwrap();
    fs::write(data.path().join("main/test.jsonl"), "{}\n").unwrap();
    let name = format!("{NAME}/main/test.jsonl");
    let first = answer_of(&serve(data.path().to_path_buf()), home.path(), Some(&name));
    assert_eq!(fs::read_to_string(&first).unwrap_or(first.clone()), "{}\n");
    assert!(Path::new(&first).starts_with(home.path()));
    assert_eq!(answer_of(NOWHERE, home.path(), Some(&name)), first, "what is in the cache needs no network");
    for (file, wanted) in [
        (format!("{NAME}/main/other.jsonl"), "cannot download hub:some-org/some-model/main/other.jsonl"),
        (NAME.to_string(), "hub:OWNER/NAME/PATH is needed"),
        (format!("{NAME}/../../secret"), "hub:OWNER/NAME/PATH is needed"),
    ] {
        let message = answer_of(&serve(data.path().to_path_buf()), home.path(), Some(&file));
        assert!(message.contains(wanted), "{message}");
    }
}

const WEIGHTS: &str = "model.safetensors";

/// Where a cache keeps what it downloads and what it shows.
fn cached(home: &Path) -> (PathBuf, PathBuf) {
    let repository = home.join("hub/models--some-org--some-model");
    (repository.join("blobs"), repository.join("snapshots").join(COMMIT))
}

fn same_weights(home: &Path, repository: &Path) -> bool {
    fs::read(cached(home).1.join(WEIGHTS)).unwrap() == fs::read(repository.join(WEIGHTS)).unwrap()
}

#[test]
fn a_download_that_was_cut_goes_on_where_it_ended() {
    let (home, repository) = (tempfile::tempdir().unwrap(), repository(false));
    let server = serve_with(repository.path().to_path_buf(), Fault::Cut(10_000));
    let message = open(&server.address, home.path());
    for part in [NAME, "cannot download", WEIGHTS, "goes on from there"] {
        assert!(message.contains(part), "{message}");
    }
    let (blobs, snapshot) = cached(home.path());
    assert!(!snapshot.join(WEIGHTS).exists(), "half a file counts as a whole one");
    assert_eq!(fs::metadata(blobs.join("model.part")).unwrap().len(), 10_000);
    assert!(open(NOWHERE, home.path()).contains("cannot download"));
    *server.fault.lock().unwrap() = Fault::None;
    assert!(open(&server.address, home.path()).starts_with("some-model 1 "));
    assert_eq!(*server.starts.lock().unwrap(), [0, 10_000]);
    assert!(same_weights(home.path(), repository.path()));
    assert!(open(NOWHERE, home.path()).starts_with("some-model 1 "));
}

#[test]
fn a_file_that_ends_early_without_a_sign_is_not_taken_for_a_whole_one() {
    let (home, repository) = (tempfile::tempdir().unwrap(), repository(false));
    let server = serve_with(repository.path().to_path_buf(), Fault::CutUnannounced(10_000));
    let message = open(&server.address, home.path());
    let whole = fs::metadata(repository.path().join(WEIGHTS)).unwrap().len();
    assert!(message.contains(&format!("{WEIGHTS}: 10000 of {whole} bytes have arrived; try again")), "{message}");
    assert!(!cached(home.path()).1.join(WEIGHTS).exists());
    *server.fault.lock().unwrap() = Fault::None;
    assert!(open(&server.address, home.path()).starts_with("some-model 1 "));
    assert!(same_weights(home.path(), repository.path()));
}

/// As after a kill between the last byte and the renaming, and after a copy that was cut by other means.
#[test]
fn leftovers_of_the_wrong_length_are_taken_away() {
    let (home, repository) = (tempfile::tempdir().unwrap(), repository(false));
    let server = serve(repository.path().to_path_buf());
    let (blobs, snapshot) = cached(home.path());
    fs::create_dir_all(&blobs).unwrap();
    for longer in [0, 7] {
        let mut bytes = fs::read(repository.path().join(WEIGHTS)).unwrap();
        bytes.extend(std::iter::repeat_n(0, longer));
        fs::write(blobs.join("model.part"), bytes).unwrap();
        let answer = open(&server, home.path());
        assert!(answer.starts_with("some-model 1 "), "{answer}");
        assert!(same_weights(home.path(), repository.path()));
        fs::remove_file(snapshot.join(WEIGHTS)).unwrap();
    }
    fs::write(snapshot.join(WEIGHTS), "half").unwrap();
    fs::remove_file(home.path().join("hub/models--some-org--some-model/refs/main")).unwrap();
    assert!(open(&server, home.path()).starts_with("some-model 1 "));
    assert!(same_weights(home.path(), repository.path()));
}

#[test]
fn two_processes_may_download_at_once() {
    let (home, repository) = (tempfile::tempdir().unwrap(), repository(false));
    let server = serve_with(repository.path().to_path_buf(), Fault::Slow);
    thread::scope(|scope| {
        let both = [0, 1].map(|_| scope.spawn(|| open(&server.address, home.path())));
        for answer in both.map(|one| one.join().unwrap()) {
            assert!(answer.starts_with("some-model 1 "), "{answer}");
        }
    });
    assert!(same_weights(home.path(), repository.path()));
    let left: Vec<_> = fs::read_dir(cached(home.path()).0).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_str().unwrap().ends_with(".part")), "{left:?}");
}
