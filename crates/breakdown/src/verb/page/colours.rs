//! The meaning of colours and textures on the page.

use crate::{TimeCategory, Work};
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

pub(super) fn of_work(work: Work) -> Colour {
    match work {
        Work::Kernel => GPU,
        Work::Collective => Colour::Nth(4),
        Work::Copy => Colour::Nth(6),
        Work::Set => Colour::Truth,
    }
}

/// Time while a GPU is busy is striped.
pub(super) fn of_gpu(busy: bool) -> Texture {
    if busy { Texture::Rising } else { Texture::Plain }
}
