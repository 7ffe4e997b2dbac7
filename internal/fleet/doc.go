// Package fleet is what the server looks like from where Apps are placed: its nodes, its mode, its manager.
package fleet
