"""Where changelists come from: a repository on this machine, a GitHub or a Gerrit; one file each, behind one port."""
