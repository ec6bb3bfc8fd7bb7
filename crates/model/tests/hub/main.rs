//! Downloads, against a server on this machine that answers as the hub does.
