//! Pages that go across the types: no code.

#[doc = include_str!("guide/cancel_and_drop.md")]
pub mod cancel_and_drop {}

#[doc = include_str!("guide/threads_and_send.md")]
pub mod threads_and_send {}

#[doc = include_str!("guide/engines_and_ops.md")]
pub mod engines_and_ops {}

#[doc = include_str!("guide/under_another_runtime.md")]
pub mod under_another_runtime {}

#[doc = include_str!("guide/beside_compio_and_tokio_uring.md")]
pub mod beside_compio_and_tokio_uring {}
