//! One shell for each function: is the descriptor ours? Else the real call.

mod close;
mod dup;
mod epoll;
mod exit;
mod fcntl;
mod names;
mod open;
mod option;
mod poll;
mod read;
mod write;
