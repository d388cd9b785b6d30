//! The fitted performance model of one device, stage and quantity.
