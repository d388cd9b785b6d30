//! The meaning of colours and textures on the page.

use crate::{GpuWork, TimeCategory};
use perf4sight_report::{Colour, Texture};

pub(super) fn of_category(category: TimeCategory) -> Colour {
    match category {
        TimeCategory::Cpp | TimeCategory::CppOrCudaApi => Colour::Nth(0),
        TimeCategory::Python => Colour::Nth(1),
        TimeCategory::CudaApi => Colour::Nth(2),
        TimeCategory::Wait => Colour::Rival,
        TimeCategory::PythonOrWait | TimeCategory::Unrecorded => Colour::Nth(7),
    }
}

pub(super) const GPU: Colour = Colour::Nth(3);

pub(super) fn of_work(work: GpuWork) -> Colour {
    match work {
        GpuWork::Kernel => GPU,
        GpuWork::Collective => Colour::Nth(4),
        GpuWork::Copy => Colour::Nth(6),
        GpuWork::Set => Colour::Truth,
    }
}

/// Time while a GPU is busy is striped.
pub(super) fn of_gpu(busy: bool) -> Texture {
    if busy { Texture::Rising } else { Texture::Plain }
}
