//! The datasets that networks are built for: image size and number of classes.

perf4sight_base::words! {
    /// A dataset of square colour images; only their size and the number of classes matter here.
    #[derive(Default)]
    pub enum Dataset: "dataset" {
        /// 1000 classes, 224x224.
        #[default]
        Imagenet = "imagenet",
        /// 10 classes, 32x32.
        Cifar10 = "cifar10",
        /// 100 classes, 32x32.
        Cifar100 = "cifar100",
    }
}

impl Dataset {
    /// Height and width of an image.
    pub fn size(self) -> usize {
        match self {
            Dataset::Imagenet => 224,
            Dataset::Cifar10 | Dataset::Cifar100 => 32,
        }
    }

    /// The number of classes.
    pub fn classes(self) -> usize {
        match self {
            Dataset::Imagenet => 1000,
            Dataset::Cifar10 => 10,
            Dataset::Cifar100 => 100,
        }
    }
}
