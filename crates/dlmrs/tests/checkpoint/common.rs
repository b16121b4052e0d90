//! Folders to break: copies of the golden checkpoints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dlmrs::checkpoint::{Folder, ModelConfig, Weights};
use dlmrs::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A golden checkpoint of the repository.
pub(crate) fn golden(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(family)
}

/// A tensor that can be changed and written.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Tensor {
    pub(crate) fn zeros(dtype: Dtype, shape: &[usize]) -> Self {
        let bytes = vec![0; shape.iter().product::<usize>() * dtype.bitsize() / 8];
        Self { dtype, shape: shape.to_vec(), bytes }
    }
}

pub(crate) type Tensors = BTreeMap<String, Tensor>;

pub(crate) fn read_tensors(path: &Path) -> Tensors {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = |view: TensorView<'_>| Tensor { dtype: view.dtype(), shape: view.shape().to_vec(), bytes: view.data().to_vec() };
    file.tensors().into_iter().map(|(name, view)| (name, tensor(view))).collect()
}

pub(crate) fn safetensors(tensors: &Tensors) -> Vec<u8> {
    let views = tensors.iter().map(|(name, t)| (name, TensorView::new(t.dtype, t.shape.clone(), &t.bytes).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

/// A copy of a golden checkpoint in a folder of its own.
pub(crate) struct Copy {
    pub(crate) temp: TempDir,
    pub(crate) config: Value,
}

impl Copy {
    /// Config and weights of a golden checkpoint.
    pub(crate) fn of(family: &str) -> Self {
        let copy = Self::config_only(family);
        fs::copy(golden(family).join("model.safetensors"), copy.path("model.safetensors")).unwrap();
        copy
    }

    pub(crate) fn config_only(family: &str) -> Self {
        let config = serde_json::from_slice(&fs::read(golden(family).join("config.json")).unwrap()).unwrap();
        let copy = Self { temp: TempDir::new().unwrap(), config };
        copy.write("config.json", copy.config.to_string());
        copy
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Sets a key of the config; null removes it as far as the reader is concerned.
    pub(crate) fn set(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self.write("config.json", self.config.to_string());
        self
    }

    pub(crate) fn without(mut self, key: &str) -> Self {
        self.config.as_object_mut().unwrap().remove(key);
        self.write("config.json", self.config.to_string());
        self
    }

    /// Changes the tensors of the single file.
    pub(crate) fn tensors(self, change: impl FnOnce(&mut Tensors)) -> Self {
        let mut tensors = read_tensors(&self.path("model.safetensors"));
        change(&mut tensors);
        self.write("model.safetensors", safetensors(&tensors));
        self
    }

    /// Cuts the single file into two shards with an index.
    pub(crate) fn sharded(self) -> Self {
        let tensors = read_tensors(&self.path("model.safetensors"));
        fs::remove_file(self.path("model.safetensors")).unwrap();
        let (mut first, mut second, mut map) = (Tensors::new(), Tensors::new(), serde_json::Map::new());
        for (number, (name, tensor)) in tensors.into_iter().enumerate() {
            let (shard, file) = if number % 2 == 0 { (&mut first, FIRST) } else { (&mut second, SECOND) };
            map.insert(name.clone(), file.into());
            shard.insert(name, tensor);
        }
        self.write(FIRST, safetensors(&first));
        self.write(SECOND, safetensors(&second));
        self.write(INDEX, json!({"metadata": {"total_size": 1}, "weight_map": map}).to_string());
        self
    }

    /// Changes the weight map of the index.
    pub(crate) fn index(self, change: impl FnOnce(&mut serde_json::Map<String, Value>)) -> Self {
        let mut index: Value = serde_json::from_slice(&fs::read(self.path(INDEX)).unwrap()).unwrap();
        change(index["weight_map"].as_object_mut().unwrap());
        self.write(INDEX, index.to_string());
        self
    }

    pub(crate) fn folder(&self) -> Folder {
        Folder::open(self.temp.path().to_str().unwrap()).unwrap()
    }

    pub(crate) fn read(&self) -> Result<ModelConfig> {
        ModelConfig::read(&self.folder())
    }

    pub(crate) fn open(&self) -> Result<Weights> {
        Weights::open(&self.folder(), &self.read()?)
    }
}

pub(crate) const FIRST: &str = "model-00001-of-00002.safetensors";
pub(crate) const SECOND: &str = "model-00002-of-00002.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// The message of an error that must have come, with all of these words in it.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T>, words: &[&str]) -> Error {
    let Err(error) = result else { panic!("must have been refused: {words:?}") };
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert!(!message.contains('\n') && message.len() < 3000, "not one sentence: {message}");
    error
}
