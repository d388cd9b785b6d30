//! What the loader of PyTorch leaves in traces.

/// Part of the name of the range in which a script waits for the processes of its loader; without such processes it is `_SingleProcessDataLoaderIter`, and loads itself.
pub const LOADER_WITH_WORKERS: &str = "_MultiProcessingDataLoaderIter";
