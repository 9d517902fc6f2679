#!/bin/sh
# The site tests drive a real browser. Installs Debian's when it is absent and this user may; says what to do otherwise.
have() { command -v "$1" >/dev/null 2>&1; }

if { have chromium || have chromium-browser || have google-chrome; } && have chromedriver; then
  exit 0
fi
if have apt-get && [ "$(id -u)" = 0 ]; then
  echo "installing chromium and chromium-driver for the site tests"
  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver && exit 0
fi
echo "The site tests need a browser. On Debian: apt-get install chromium chromium-driver" >&2
echo "(or set HEATCHECK_CHROMIUM and HEATCHECK_CHROMEDRIVER to the programs); without it: make lint types unit" >&2
exit 1
