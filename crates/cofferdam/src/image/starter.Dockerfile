ARG BASE_IMAGE_TAG=latest
FROM cofferdam-base:${BASE_IMAGE_TAG}

# What sandboxes of this repository need beyond the base; `cofferdam build` builds it. The base has git, editors, shells, compilers,
# Node.js, Go, Rust, Ruby, Python, Chromium and the agents: they need no second copy here.

# Packages of Debian:
# USER root
# RUN apt-get update \
#     && apt-get install -y --no-install-recommends PACKAGE \
#     && rm -rf /var/lib/apt/lists/*

# Programs of npm that no package.json names:
# RUN npm install --global PACKAGE@VERSION

# No code of the repository: a sandbox has it as it is. No ENTRYPOINT and no user at the end: a sandbox has its own.
