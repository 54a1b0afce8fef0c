#!/usr/bin/env bash
# Spark 4.2 needs Java 17 or 21. One line on what to install, before anything else is downloaded.
set -u
java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
major=$("$java" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1)
case "$major" in
17 | 21) exit 0 ;;
esac
echo "Java 17 or 21 is needed (found: ${major:-none}). Debian/Ubuntu: sudo apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17; Windows: winget install Microsoft.OpenJDK.17" >&2
exit 1
