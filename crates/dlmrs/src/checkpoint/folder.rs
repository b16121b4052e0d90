//! Where the files of a checkpoint are: a folder on disk, inside the library, or one GGUF file that stands for all of them.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Gguf, hub};
use crate::{Error, Result};

/// The text files of a model folder that are read, besides the weights and their index.
pub const TEXTS: [&str; 9] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
];

/// No tokenizer's vocabulary is larger; the largest have some 40 MB.
const MAX_VOCABULARY: u64 = 256 << 20;
/// No other text file is larger; the largest indexes have some 10 MB. Parsed, a file can take thirty times its length.
const MAX_TEXT: u64 = 32 << 20;
const VOCABULARIES: [&str; 3] = ["tokenizer.json", "vocab.json", "merges.txt"];

/// A name that starts like this never means a folder on disk.
const BUNDLED_PREFIX: &str = "bundled:";

/// The files of one checkpoint.
#[derive(Clone, Debug)]
pub enum Folder {
    /// A folder on disk.
    Disk(PathBuf),
    /// A model inside the library (feature `bundled`): its name, and its files by name.
    Bundled(&'static str, &'static [(&'static str, &'static [u8])]),
    /// One file with everything in it.
    Gguf(Arc<Gguf>),
}

impl Folder {
    /// Opens the folder or the GGUF file at a path, or the bundled model of that name (`tiny-sdar`, or `bundled:tiny-sdar` to be explicit).
    ///
    /// A folder on disk is taken before a bundled model of the same name if it is written as a path (with a separator) or holds a
    /// `config.json`. A name written as `org/name` that is neither means a repository of the Hugging Face hub, which a build with the
    /// feature `hub` downloads into the hub's cache. Nothing is read yet, but the header of a GGUF file.
    pub fn open(name: &str) -> Result<Self> {
        if let Some(bundled) = name.strip_prefix(BUNDLED_PREFIX) {
            return Self::bundled(bundled)
                .ok_or_else(|| Error::input("model", format!("there is no bundled model named {bundled:?}; {}", bundled_hint())));
        }
        let path = Path::new(name);
        let written_as_path = name.contains(std::path::is_separator) || path.is_absolute();
        let taken = written_as_path || path.join("config.json").is_file();
        match Self::bundled(name).filter(|_| !taken) {
            Some(bundled) => Ok(bundled),
            None if !path.exists() && !Gguf::is_named(path) && hub::is_repository(name) => hub::open(name),
            None => Self::open_disk(path),
        }
    }

    fn open_disk(path: &Path) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => not_found("model folder", path),
            _ => Error::io("open", path, error),
        })?;
        if metadata.is_file() && Gguf::is_at(path)? {
            return Gguf::open(path).map(|file| Self::Gguf(Arc::new(file)));
        }
        if !metadata.is_dir() {
            return Err(Error::checkpoint(
                path.display().to_string(),
                "is a file, but a model is a folder that holds config.json and *.safetensors, or a GGUF file; give one of these",
            ));
        }
        // A folder that may not be entered is reported here and as a folder, not later as a missing file.
        match fs::metadata(path.join("config.json")) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Error::io("open", path, error)),
            _ => Ok(Self::Disk(path.to_path_buf())),
        }
    }

    #[cfg(feature = "bundled")]
    fn bundled(name: &str) -> Option<Self> {
        super::bundled::find(name).map(|(name, files)| Self::Bundled(name, files))
    }

    #[cfg(not(feature = "bundled"))]
    fn bundled(_name: &str) -> Option<Self> {
        None
    }

    /// The whole content of a file, or None if there is no such file. What a GGUF file says of its tokenizer is put into the form of files.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = match self {
            Self::Bundled(_, files) => return Ok(files.iter().find(|(file, _)| *file == name).map(|(_, bytes)| bytes.to_vec())),
            Self::Disk(folder) => folder.join(name),
            Self::Gguf(file) => return file.text(name),
        };
        let Some(length) = regular_file(&path)? else { return Ok(None) };
        let most = if VOCABULARIES.contains(&name) { MAX_VOCABULARY } else { MAX_TEXT };
        if length > most {
            return Err(Error::checkpoint(
                path.display().to_string(),
                format!("has {length} bytes, but no such file has more than {most}"),
            ));
        }
        let mut bytes = Vec::new();
        fs::File::open(&path).and_then(|file| file.take(most).read_to_end(&mut bytes)).map_err(|error| Error::io("read", &path, error))?;
        Ok(Some(bytes))
    }

    /// The content of a file that must be there.
    pub fn require(&self, name: &str) -> Result<Vec<u8>> {
        self.read(name)?.ok_or_else(|| Error::NotFound {
            what: name.to_string(),
            path: self.path(),
            hint: format!("a model folder must hold {name}"),
        })
    }

    /// Whether there is such a file, without reading it.
    pub fn has(&self, name: &str) -> Result<bool> {
        match self {
            Self::Bundled(_, files) => Ok(files.iter().any(|(file, _)| *file == name)),
            Self::Disk(folder) => Ok(regular_file(&folder.join(name))?.is_some()),
            Self::Gguf(file) => Ok(file.text(name)?.is_some()),
        }
    }

    /// A file of this folder as the user knows it, for messages; of a GGUF file itself.
    pub fn describe(&self, name: &str) -> String {
        match self {
            Self::Disk(folder) => folder.join(name).display().to_string(),
            Self::Bundled(model, _) => format!("{BUNDLED_PREFIX}{model}/{name}"),
            Self::Gguf(file) => file.name(),
        }
    }

    /// The folder itself, for messages.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Disk(folder) => folder.clone(),
            Self::Bundled(model, _) => PathBuf::from(format!("{BUNDLED_PREFIX}{model}")),
            Self::Gguf(file) => file.path().to_path_buf(),
        }
    }

    /// The checkpoint's name: the last part of the path as it was written, or the repository's name within a Hugging Face cache
    /// (`models--JetLM--SDAR-8B-Chat-b8/snapshots/<hash>`), where the last part says nothing. A GGUF file's is without its ending.
    pub fn name(&self) -> String {
        let path = match self {
            Self::Bundled(model, _) => return (*model).to_string(),
            Self::Gguf(file) => return file.path().file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            Self::Disk(path) => path,
        };
        // "." and ".." have no name of their own.
        let full = path.canonicalize().unwrap_or_else(|_| path.clone());
        repository_name(path)
            .or_else(|| repository_name(&full))
            .or_else(|| path.file_name().or_else(|| full.file_name()).map(|name| name.to_string_lossy().into_owned()))
            .unwrap_or_default()
    }
}

/// `SDAR-8B-Chat` from `.../models--JetLM--SDAR-8B-Chat/snapshots/<hash>`.
fn repository_name(path: &Path) -> Option<String> {
    let snapshots = path.parent().filter(|parent| parent.file_name().is_some_and(|name| name == "snapshots"))?;
    let repository = snapshots.parent()?.file_name()?.to_str()?;
    Some(repository.strip_prefix("models--")?.rsplit("--").next()?.to_string())
}

/// The length of a regular file, None if there is none; anything else (a folder, a pipe that would block) is refused.
pub(super) fn regular_file(path: &Path) -> Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
        Ok(_) => Err(Error::checkpoint(path.display().to_string(), "is not a regular file")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

fn not_found(what: &str, path: &Path) -> Error {
    Error::NotFound { what: what.to_string(), path: path.to_path_buf(), hint: hint() }
}

/// What a model can be given as.
pub(super) fn hint() -> String {
    format!("give the path of a folder that holds config.json and *.safetensors, or of a GGUF file; {}", bundled_hint())
}

#[cfg(feature = "bundled")]
fn bundled_hint() -> String {
    format!("the bundled models are {}", super::bundled::NAMES.join(", "))
}

#[cfg(not(feature = "bundled"))]
fn bundled_hint() -> String {
    "this build has no bundled models".to_string()
}
