//! What a process takes beside its tensors, before anything is measured.

use perf4sight_platform::Memory;

/// MiB beside the tensors: a belief, of which only one device of each kind says how good it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    /// As likely too much as too little.
    pub typical: f64,
    /// The scale of the doubt about it.
    pub deviation: f64,
}

impl Beside {
    /// Of processes whose tensors live in such memory.
    pub fn of(memory: Memory) -> Self {
        match memory {
            // 22 to 41 MiB in the committed profile of a processor (`docs/accuracy/memory.md`): code and kernels, the program having started.
            Memory::Host => Beside { typical: 30.0, deviation: 10.0 },
            // A CUDA context with its libraries: 845 to 1550 MiB on the published TX2. Nobody has measured another device here; later versions of
            // CUDA load kernels when they are first used, so that the interval begins far below.
            Memory::Dedicated | Memory::Unified => Beside { typical: 1000.0, deviation: 350.0 },
        }
    }
}
